"""Seeds that once led to a violation, each with what was wrong then: they are run always, at their full size, in the
weather that they stand for now and in that of the kinds that there always were."""

FAILED_ONCE = {
    11: "a go that was lost was never given again, so that a gang waited until it was aborted",
    115: "a look that was answered before the start ended the job that had begun since",
    174: "a start that had waited long for its turn was given up at once",
    743: "the exit of a job whose supervisor was killed was judged as its own",
    20002: "a gang whose first part had ended before the word reached the second never began there",
    20017: "a refusal without a fence ended a part that an earlier request still started",
    287: "a part of a gang that was begun without it is lost, though its node never went down: so it should be",
    336: "what was wanted of a part while contact was lost counted for more than what its node had ended it for",
    1790: "a fence for a start that was refused arrived late, and ended a command that had begun since",
    2057: "the same, with exit 0: the job was NODE_FAIL without a reason",
    2763: "a start that was given up unheard began, and an srun ran again",
    5393: "the same of a batch job that must not be queued again",
    528: "a limit that a node had reached was taken for an end long before it, since its clock was badly known",
    5714: "the same in a gang",
    5795: "an exit of before a reboot, of a command that ended by itself, was told as the cancel that came after it",
    8454: "the same where its leftovers had still to be ended",
    1249: "a start was given up because nothing had been heard of it",
    1822: "a job that waited for another to begin began while that one was tried again, and had not begun anew",
    3426: "the same with another storm",
}
