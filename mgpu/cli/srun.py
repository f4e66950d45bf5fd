"""mgpu srun: a job in the foreground."""

from __future__ import annotations

import os

from mgpu.cli.follower import LIMITS
from mgpu.cli.foreground import Part, stay
from mgpu.cli.given import NOTHING, Given, given_by, misses_a_terminal
from mgpu.cli.session import Session, bad_request
from mgpu.cli.signals import LEAVING, Raised, Signals
from mgpu.cli.sink import check_pattern
from mgpu.cli.submission import bring, prepare, send, test_only
from mgpu.cli.syntax import Option, Words, command
from mgpu.cli.text import say
from mgpu.client import http
from mgpu.client.options import (
    IMMEDIATE,
    INTERACTIVE,
    KILL_ON_DISCONNECT,
    TEST_ONLY,
    job_options,
    seconds,
    whole_number,
)
from mgpu.client.submission import Prepared
from mgpu.client.taking_back import take_back
from mgpu.lean.typing import Any, Sequence

EXAMPLES = """
Examples:
  mgpu srun -G 2 python train.py --lr 0.1
  mgpu srun -w gpu01 --gpu-ids 0,1 -- python train.py
  mgpu srun -G 1 sh -c 'hostname; echo $CUDA_VISIBLE_DEVICES'
  mgpu srun -G 1 --pty bash
  zcat data.gz | mgpu srun -G 1 python read.py
  mgpu srun -N 2 --gpus-per-node 4 --distributed -- torchrun train.py
  mgpu srun -N 2 --gpus-per-node 4 --mpi -- mpirun -np 8 python train.py
  mgpu srun -N 2 -n 8 -G 8 python train.py  8 processes, each with its rank

Exit status: the job's own (128+n if signal n killed it); 124 time limit;
130 ^C; 143 cancelled by another; 70 node failure; 75 --immediate unmet, or no
longer followed; 69 no master; 77 not allowed; 2 bad request.

^C takes a waiting job off the queue. Of a running one it tells the state, and
a second ^C within a second ends the job; where stderr is no terminal the first
one does. SIGUSR1 and SIGUSR2 go to the job. SIGTERM ends it; on
SIGHUP, ^\\ (SIGQUIT), or when nobody reads our output any more, it runs on.

stdin is passed on when it is a pipe or a file; else the job's is empty. With
--pty the keys of this terminal are the job's own, ^C among them; ~. at the
beginning of a line leaves it (mgpu attach goes back), ~? tells more.
"""
PTY = Option("--pty", "", "A terminal there for COMMAND: a shell, an editor, a monitor.")
INPUT = Option("-i --input", "FILE", "stdin from this file; `none`: an empty one, whatever ours is.")


OF_SRUN = (PTY, INPUT, IMMEDIATE, KILL_ON_DISCONNECT, TEST_ONLY)


def slurms_options() -> Sequence[Option]:
    from mgpu.client.slurm import options_of_srun

    return [*options_of_srun(), INTERACTIVE]  # of the older system: it is so in any case


@command(*job_options(*OF_SRUN), words=True, has_json=False, examples=EXAMPLES, strangers=slurms_options)
def srun(session: Session, /, words: Words, pty: bool, input: str | None, **given: Any) -> int:
    """Run COMMAND on GPUs: wait for them, stream its output, end with its exit status.

    Options end at the first other word: all further words belong to COMMAND, byte for byte. Every option may also come
    from a variable (MGPU_GPU_TYPE for --gpu-type) or from config.yaml in ~/.config/mgpu. Those of Slurm's srun that are
    not listed, such as --gres, are understood or refused.
    """
    read = given_by(pty, input)
    prepared = prepare(given, words, "srun")
    if input is None and not (pty or prepared.options.get("quiet")) and misses_a_terminal(words.words):
        say(f"{words.words[0]} has an empty stdin there; to type to it: mgpu srun --pty {words.words[0]}")
    if read.typed:
        for key in ("output", "error", "label", "retries"):
            if prepared.options.get(key):
                raise bad_request(f"--{key} does not go with --pty", "leave out one of them")
        prepared.body["env"].setdefault("TERM", os.environ.get("TERM") or "dumb")
    if read.input:
        prepared.body["options"]["input"] = read.input
    if prepared.options.get("test_only"):
        test_only(session, prepared)
        return 0
    return follow(session, prepared, read)


def follow(session: Session, prepared: Prepared, read: Given = NOTHING) -> int:
    """Submits and stays with the job. `read`: what it is given. Gives the exit status; raises MasterError."""
    options = dict(prepared.options)
    for key in LIMITS:  # faults are told before anything is queued
        seconds(options, key)
    rank = whole_number(options, "rank")
    for key in ("output", "error"):
        if options.get(key) and prepared.body["kind"] == "srun":
            check_pattern(str(options[key]))
    if prepared.body["kind"] == "batch":  # its files are written on the node
        options.pop("output", None)
        options.pop("error", None)
    session.patience_s = seconds(options, "connection_timeout")
    master = session.master()
    master.log_in()
    bring(session, prepared)  # no job is queued yet: a signal just ends it
    with Signals() as signals:  # from here on: no moment may be left in which one would end us alone, and not the job
        try:
            with signals.raising():
                job_id, created = send(session, prepared)
        except Raised as error:
            return not_answered(master.location.endpoint, prepared.body, error.number, signals)
        return stay(session, signals, job_id, options, Part(rank), not created, read._replace(again=not created))


def not_answered(endpoint: http.Endpoint, body: dict[str, Any], number: int, signals: Signals) -> int:
    """A signal came before the answer did; the exit status. The job is taken back, unless one merely leaves it."""
    try:
        with signals.raising():
            taken = number not in LEAVING and take_back(endpoint, body)
    except Raised:
        taken = False
    if not taken:
        say("the master has not answered: the job may be queued; see it with: mgpu queue --me")
    return 128 + number
