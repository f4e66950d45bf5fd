"""mgpu db: the database file, beside a master that runs or without one."""

from __future__ import annotations

import os
import sys

from mgpu.cli.session import Session, refusal
from mgpu.cli.syntax import Argument, Group, Option, command
from mgpu.cli.text import say
from mgpu.client import start
from mgpu.client.http import MasterError
from mgpu.client.lock import is_held, master_lock
from mgpu.clock import monotonic
from mgpu.lean.typing import Any
from mgpu.users import user_name
from mgpu.wording.letters import clean

COMMANDS = {
    "backup": ("mgpu.cli.db:backup", "A copy of it, while the master goes on."),
    "restore": ("mgpu.cli.db:restore", "Put a backup in its place."),
    "check": ("mgpu.cli.db:check", "Whether it agrees with itself."),
    "vacuum": ("mgpu.cli.db:vacuum", "Give room back that it no longer needs."),
    "migrate": ("mgpu.cli.db:migrate", "Bring it to this version's schema, or see whether that would go well."),
}
BACKUP_EXAMPLES = """
Examples:
  mgpu db backup                        beside the database, named by the time
  mgpu db backup /backup/mgpu.db --force   replaces yesterday's
"""
RESTORE_EXAMPLES = """
Example:
  mgpu stop
  mgpu db restore /backup/mgpu.db
  mgpu queue                      starts a master; what waited then is held
"""
CHECK_EXAMPLES = """
Examples:
  mgpu db check
  mgpu db check --json
"""
MIGRATE_EXAMPLES = """
Examples:
  mgpu db migrate --dry-run   tried on a copy, which goes again
  mgpu db migrate             the master does the same when it begins
"""
EXAMPLES = """
Examples, on the master's machine:
  mgpu db backup                  while the master goes on
  mgpu db check
  mgpu stop; mgpu db restore /backup/mgpu.db
"""
WORD_S = 2.0  # between two words about how far it is

db = Group("db", "Back up, restore, check, shrink and migrate the database.", COMMANDS, examples=EXAMPLES)


@command(
    Argument("file", nargs="?"),
    Option("--force", "", "Replace FILE if it is there."),
    examples=BACKUP_EXAMPLES,
)
def backup(session: Session, /, file: str | None, force: bool) -> None:
    """Copy the database into FILE (mode 0600), whether or not a master runs, and look through the copy. Output of jobs
    is not part of it: that is in the spool beside."""
    state_dir = _state_dir(session)
    if file == "":
        raise MasterError("bad_request", "FILE is empty", "leave it out, or name one", 2)
    written = _asked("back_up", state_dir, file or "", force, Words())
    told = {"file": str(written.path), "size_bytes": written.size, "schema": written.schema}
    _tell(session, told, f"{written.path}: {written.size / 2**20:.1f} MiB, schema {written.schema}, looked through")


@command(Argument("file"), examples=RESTORE_EXAMPLES)
def restore(session: Session, /, file: str) -> None:
    """Put the backup FILE in the place of the database, while no master runs. What is there now is kept aside. Jobs
    that waited then are held, as they may have run since; numbers that were given since are not given again."""
    state_dir = session.location_here().state_dir
    new = not os.path.lexists(state_dir)
    if new:  # on a machine that takes the place of another
        start.make_state_dir(state_dir)
    _require_owner(state_dir)
    try:
        with master_lock(state_dir):
            done = _asked("restore", state_dir, file)
    except MasterError:
        if new:
            start.unmake_state_dir(state_dir)
        raise
    aside = str(done.aside) if done.aside.exists() else None  # where there was something
    told = {
        "aside": aside,
        "held": done.held,
        "output_moved": done.moved,
        "next_job_id": done.next,
        "tokens_revoked": done.revoked,
    }
    lines = [
        f"{file} is in place" + (f"; what was there before lies in {aside}" if aside else ""),
        f"jobs that are held, as they may have run since: {done.held}; mgpu queue, mgpu release ID, mgpu cancel ID",
        f"output of attempts that it does not know, put aside: {done.moved}; the next job is {done.next}",
    ]
    if done.revoked:
        lines.append(f"tokens that were revoked since, or may have been, and are: {done.revoked}; mgpu token list")
    _tell(session, told, "\n".join(lines))


@command(examples=CHECK_EXAMPLES)
def check(session: Session, /) -> int:
    """Look for damage, for rows that contradict each other, and for output of no job; changes nothing. The exit status
    is 1 where something is wrong."""
    from mgpu.cli import findings
    from mgpu.core.finding import FAILURE, WARNING

    found = _asked("check", _state_dir(session), collect=True)
    if session.json:
        session.print_json({"findings": [one.as_json() for one in found]})
    else:
        session.print_lines([*findings.lines(found), findings.counted(found)])
    return int(any(one.status in (FAILURE, WARNING) for one in found))


@command(examples="\nExample:\n  mgpu db vacuum\n")
def vacuum(session: Session, /) -> None:
    """Write the file anew without what was removed. Beside a master that runs, only while it is small."""
    state_dir = _state_dir(session)
    if is_held(state_dir):
        before, after = _asked("vacuum", state_dir, True)
    else:
        with master_lock(state_dir):
            before, after = _asked("vacuum", state_dir, False)
    words = f"{before / 2**20:.1f} MiB before, {after / 2**20:.1f} MiB now"
    _tell(session, {"before_bytes": before, "after_bytes": after}, words)


@command(Option("--dry-run", "", "Only try it, on a copy."), examples=MIGRATE_EXAMPLES)
def migrate(session: Session, /, dry_run: bool) -> None:
    """Bring the database to the schema of this version; a copy of it as it was stays beside it. A master that runs has
    done that already."""
    state_dir = _state_dir(session)
    before, after = _asked("migrate", state_dir, True)
    if not dry_run and before != after:
        with master_lock(state_dir):
            before, after = _asked("migrate", state_dir, False)
    if before == after:
        words = f"schema {after}: nothing to do"
    elif dry_run:
        words = f"would go from schema {before} to {after}: tried on a copy, which was sound afterwards"
    else:
        words = f"went from schema {before} to {after}; a copy of it as it was lies beside it"
    _tell(session, {"from": before, "to": after, "changed": not dry_run and before != after}, words)


def _state_dir(session: Session) -> str:
    """One that is there. Raises MasterError."""
    state_dir = session.location_here().state_dir
    _require_owner(state_dir)
    return state_dir


def _require_owner(state_dir: str) -> None:
    """Raises MasterError where it is not there, and for who is neither root nor whose it is: the files are nobody
    else's, admins' neither."""
    try:
        owner = os.stat(state_dir).st_uid
    except OSError as error:
        code = "not_found" if isinstance(error, FileNotFoundError) else "not_allowed"
        what = f"{state_dir}: {error.strerror}: no database can be looked at there"
        raise MasterError(code, what, "name the master's folder with --state-dir, on the master's machine") from error
    if os.geteuid() not in (0, owner):
        name = user_name(owner)
        whose, account = (name, name) if name else (f"uid {owner}", f"'#{owner}'")
        what = f"the database in {state_dir} is {whose}'s: mgpu db is for who runs the master, and root"
        raise MasterError("not_allowed", what, f"sudo -u {account} mgpu db ...", 77)


def _asked(work: str, *details: Any, collect: bool = False) -> Any:
    """Of mgpu.care. Raises MasterError."""
    from mgpu import care
    from mgpu.core.errors import MgpuError

    try:
        found = getattr(care, work)(*details)
        return list(found) if collect else found
    except MgpuError as error:
        raise refusal(error) from error


def _tell(session: Session, told: dict[str, Any], words: str) -> None:
    if session.json:
        session.print_json(told)
    else:
        print("\n".join(map(clean, words.split("\n"))))


class Words:
    """How far a copy is: now and then, for who looks on."""

    def __init__(self) -> None:
        self._due = monotonic() + WORD_S

    def __call__(self, left: int, pages: int) -> None:
        if monotonic() >= self._due and sys.stderr.isatty():
            self._due = monotonic() + WORD_S
            say(f"{100 * (pages - left) // max(1, pages)} % of {pages * 4096 >> 20} MiB")
