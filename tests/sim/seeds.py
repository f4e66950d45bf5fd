"""Seeds that once led to a violation, each with what was wrong then: they are run always, at their full size."""

FAILED_ONCE = {
    11: "a go that was lost was never given again, so that a gang waited until it was aborted",
    115: "a look that was answered before the start ended the job that had begun since",
    174: "a start that had waited long for its turn was given up at once",
    743: "the exit of a job whose supervisor was killed was judged as its own",
    20002: "a gang whose first part had ended before the word reached the second never began there",
    20017: "a refusal without a fence ended a part that an earlier request still started",
    1249: "a start was given up because nothing had been heard of it",
}
