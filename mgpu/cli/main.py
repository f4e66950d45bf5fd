"""The command line: which command lives where, and the one place where errors become a line and an exit status."""

from __future__ import annotations

import atexit
import os
import sys

import mgpu
from mgpu.cli import plain
from mgpu.cli.session import Session
from mgpu.cli.syntax import Command, Group, Reading
from mgpu.cli.text import say
from mgpu.client import http
from mgpu.client.http import MasterError
from mgpu.lean.context import suppress
from mgpu.lean.typing import NoReturn

COMMANDS = {
    "srun": ("mgpu.cli.srun:srun", "Run a job in the foreground."),
    "submit": ("mgpu.cli.submit:submit", "Queue a job and return."),
    "queue": ("mgpu.cli.queue:queue", "Jobs that wait or run."),
    "history": ("mgpu.cli.history:history", "Jobs that ended."),
    "report": ("mgpu.cli.report:report", "What came of the GPUs: hours, use, waits, nodes."),
    "show": ("mgpu.cli.show:show", "All about a job or a node."),
    "why": ("mgpu.cli.why:why", "Why a job waits."),
    "logs": ("mgpu.cli.logs:logs", "What jobs wrote."),
    "attach": ("mgpu.cli.attach:attach", "Stay with a job in the foreground, as its srun did."),
    "cancel": ("mgpu.cli.cancel:cancel", "End jobs."),
    "signal": ("mgpu.cli.signal:signal", "Send jobs a signal."),
    "hold": ("mgpu.cli.hold:hold", "Keep jobs that wait from starting."),
    "release": ("mgpu.cli.hold:release", "Let held jobs start again."),
    "requeue": ("mgpu.cli.requeue:requeue", "Run jobs once more."),
    "wait": ("mgpu.cli.wait:wait", "Wait until jobs have ended."),
    "update": ("mgpu.cli.update:update", "Change a job that waits, or its time limit."),
    "top": ("mgpu.cli.top:top", "Watch nodes, GPUs and the queue on one screen."),
    "nodes": ("mgpu.cli.nodes:nodes", "Nodes and their GPUs."),
    "node": ("mgpu.cli.node:node", "Act on nodes: add, remove, trust, probe, drain, resume, down, clean."),
    "doctor": ("mgpu.cli.doctor:doctor", "Why a node or the master does not do what it should."),
    "preflight": ("mgpu.cli.preflight:preflight", "Whether nodes can run a job together."),
    "enroll": ("mgpu.cli.enroll:enroll", "Let the master run your jobs under your own accounts."),
    "init": ("mgpu.cli.init:init", "Make a configuration from the hosts that ssh knows."),
    "simulate": ("mgpu.cli.simulate:simulate", "Replay a job log through the planner."),
    "audit": ("mgpu.cli.audit:audit", "Who did what, and what was refused."),
    "config": ("mgpu.cli.config:config", "Check the configuration, and bring it into force."),
    "db": ("mgpu.cli.db:db", "Back up, restore, check, shrink and migrate the database."),
    "status": ("mgpu.cli.status:status", "Whether a master runs, and how it is."),
    "stop": ("mgpu.cli.stop:stop", "End the master; jobs run on."),
    "restart": ("mgpu.cli.restart:restart", "Run the master anew, as after an upgrade; jobs run on."),
    "token": ("mgpu.cli.token:token", "Make, list and revoke tokens, for clients that come over TCP."),
    "completion": ("mgpu.cli.completion.commands:completion", "Completion for bash, zsh and fish, and manual pages."),
    "service": ("mgpu.cli.service.commands:service", "Have systemd or cron see to it that a master runs."),
    "daemon": ("mgpu.cli.daemon:daemon", "Be the master, in the foreground."),
    "dial-stdio": ("mgpu.cli.dial_stdio:dial_stdio", "Connect a client on another machine with the master here."),
    "tick": ("mgpu.cli.tick:tick", "Be the master for one full pass, as from cron."),
}
ALIASES = {
    "run": "srun",
    "sbatch": "submit",
    "squeue": "queue",
    "sacct": "history",
    "scancel": "cancel",
    "sinfo": "nodes",
}
EXAMPLES = """
Examples:
  mgpu srun -G 2 python train.py         wait for 2 GPUs, run there, stream,
                                         exit with its code
  mgpu submit -G 4 -t 8:00:00 train.sh   queue a script
  mgpu queue; mgpu nodes; mgpu logs -f 17; mgpu why 17; mgpu cancel 17
"""


ALL_OF_IT = "that is done by all of mgpu: install it (scripts/install), or do it where mgpu_master is"
CLI = Group("mgpu", "One queue for the GPU machines that you can SSH into.", COMMANDS, ALIASES, EXAMPLES)


def main(args: list[str] | None = None, root: Group | Command = CLI) -> NoReturn:
    """Runs one command line and exits. `root`: which program it is of."""
    words = sys.argv[1:] if args is None else args
    open_closed_streams()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    leave(run(words, root))


def open_closed_streams() -> None:
    """Where a standard stream was closed, what is opened next would take its number and get what was meant for it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def leave(status: int) -> NoReturn:
    """Exits at once: to take a hundred modules apart first would cost a tenth of a command's time."""
    if "mgpu.daemon" in sys.modules:  # a master has threads to wait for
        sys.exit(status)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # run() has told of those that matter
            stream.flush()
    os._exit(status)


def run(words: list[str], root: Group | Command = CLI) -> int:
    """The exit status of one command line."""
    session = Session()
    try:
        reading = read_line(session, words, root)
        if isinstance(reading, int):
            return reading
        session = Session(**reading.common)
        if path := reading.given.get("status_file"):
            session.write_status_to(path)
        status = reading.command.run(session, reading.given)
        session.leave_untold(status, "not_told", "it ended without word of a job")
        sys.stdout.flush()
        return status
    except MasterError as error:
        session.leave_untold(error.exit_code, **error.as_json())
        session.print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        session.leave_untold(130, "interrupted", "interrupted by ^C")
        return 130
    except BrokenPipeError:
        session.leave_untold(141, "broken_pipe", "nobody reads our output")
        # As a program ended by SIGPIPE; nothing may be flushed into that pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except ModuleNotFoundError as error:
        from mgpu.whereabouts import packed

        if not packed():
            raise
        told = MasterError("not_here", f"this file is a client alone: {error.name} is not in it", ALL_OF_IT)
        session.leave_untold(told.exit_code, **told.as_json())
        session.print_error(told)
        return told.exit_code
    except http.UNREADABLE as error:
        if not http.other_versions:
            raise  # a fault of ours
        told = unreadable(error)
        session.leave_untold(told.exit_code, **told.as_json())
        session.print_error(told)
        return told.exit_code
    except OSError as error:
        said = f"{error.filename or 'system'}: {error.strerror or error}"
        session.leave_untold(1, "error", said)
        say(said)
        return 1


def unreadable(error: Exception) -> MasterError:
    """Of a master of another version: what a command looks for in its answers is not there, or is another thing."""
    who = f"the master, which is mgpu {http.other_versions[0]}"
    what = f"the answer of {who}, cannot be read by this {mgpu.__version__} ({type(error).__name__}: {error})"
    return MasterError("other_version", what, "install the same version; then mgpu restart, jobs run on")


def read_line(session: Session, words: list[str], root: Group | Command = CLI) -> Reading | int:
    """An exit status where that is all there is to it, as after help. `session`: what a mistaken line means of that."""
    reading = plain.read(root, words)
    if reading is not None:
        return reading
    from mgpu.cli import click_reader

    try:
        return click_reader.read(root, words)
    except MasterError:
        session.json = "--json" in (words[: words.index("--")] if "--" in words else words)
        if any(word.startswith("--status-file") for word in words):
            from mgpu.cli.status_file import named_in

            if path := named_in(words):
                session.write_status_to(path)
        raise
