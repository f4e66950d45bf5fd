"""mgpu submit: queue a job and return."""

from __future__ import annotations

from mgpu.cli.session import Session, bad_request
from mgpu.cli.submission import prepare, send, test_only
from mgpu.cli.syntax import Option, Words, command
from mgpu.client.options import OF_SUBMIT, job_options
from mgpu.lean.typing import Any

EXAMPLES = """
Examples:
  mgpu submit -G 2 train.sh --lr 0.1        a script and its arguments
  mgpu submit 'cd run7 && make train'       one word, no file: a command line
  make-script | mgpu submit -G 1            a script on stdin
  mgpu submit -w gpu01 -- python train.py   the program's words, byte for byte
  mgpu submit -a 0-99%4 -G 1 sweep.sh       100 tasks, 4 at once:
                                            $MGPU_ARRAY_INDEX says which
  mgpu submit --each-line runs.txt -a %8    a task for each line, 8 at once
  mgpu submit -G 8 --distributed -- train.py   torchrun, a process for each GPU

In the script itself: #SBATCH --gres=gpu:2 --time=1:00:00, or
#MGPU -G 2 -t 1:00:00.
"""


def slurms_options() -> list[Option]:
    from mgpu.client.slurm import OPTIONS

    return OPTIONS


@command(*job_options(*OF_SUBMIT), words=True, examples=EXAMPLES, strangers=slurms_options)
def submit(session: Session, /, words: Words, **given: Any) -> int:
    """Queue a job and print its number.

    COMMAND is a script if it names a file here, or, left out or -, if one comes on stdin; else one word is a shell's
    command line and several are a program and its arguments. After -- the words are always a program and its arguments.
    Options end at the first other word.

    A script may hold options itself, in #MGPU and #SBATCH lines before its first command; the command line counts more.
    Options of Slurm's sbatch are understood, or refused, as docs/slurm-options.md tells.
    """
    prepared = prepare(given, words, "batch")
    if prepared.options.get("test_only"):
        test_only(session, prepared)
        return 0
    if prepared.options.get("interactive"):
        if prepared.options.get("array") or prepared.body["command"]["form"] == "lines":
            raise bad_request("--interactive follows one job, and an array is many", "leave out one of them")
        from mgpu.cli.srun import follow

        if session.json:
            raise bad_request("--interactive has no --json", "leave out one of them")
        return follow(session, prepared)
    if session.status_file is not None and not prepared.options.get("wait"):
        raise bad_request("--status-file says how a job ended, and submit does not wait for that", "add --wait")
    job_id, _ = send(session, prepared)
    if session.json:
        session.print_json({"job_id": job_id})
    else:
        print(job_id if prepared.options.get("parsable") else f"Submitted job {job_id}", flush=True)
    if not prepared.options.get("wait"):
        return 0
    from mgpu.cli.wait import until_submitted_is_over

    return until_submitted_is_over(session, job_id, bool(prepared.options.get("quiet")))
