"""What the account on the node is like: one text for its shell, sent once, and what each part of the answer means."""

from __future__ import annotations

import contextlib
import secrets
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files

from mgpu import clock
from mgpu.core.finding import Finding, failure, ok, skipped, warning
from mgpu.doctor.case import Case, Patient
from mgpu.numeral import numeral
from mgpu.remote.channel import Channel
from mgpu.remote.errors import RemoteError

LOOK_S = 30.0  # for all of it: each part that may hang is given 5 s there
SLOW_SHELL_S = 2.0
LOW_MIB = 512
LOW_INODES = 10_000
CLOCK_S = 5.0
HUNG = ("124", "137")  # of timeout
MAX_ANSWER = 1 << 20

Sections = Mapping[str, tuple[str, list[str]]]  # name -> (words after it, lines below)


@lru_cache(maxsize=1)
def _text() -> str:
    lines = (line.strip() for line in files("mgpu.doctor").joinpath("look.sh").read_text("ascii").splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("#"))


def parse(answer: str, mark: str) -> tuple[str, dict[str, tuple[str, list[str]]]]:
    """What stood before the answer, and its sections."""
    before, *chunks = answer.split(f"\n{mark} ")
    sections = {}
    for chunk in chunks:
        head, _, text = chunk.partition("\n")
        name, _, words = head.partition(" ")
        sections[name] = (words, text.splitlines())
    return before, sections


def shell(case: Case) -> Iterator[Finding]:
    """Sends the text, and judges what the login shell made of it."""
    assert case.connection is not None
    mark = secrets.token_hex(16)
    given = {"mark": mark, "root": case.node.run_dir, "workdir": case.node.workdir, "setup": case.node.setup}
    text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in given.items()) + _text()
    asked, before = clock.monotonic(), clock.now()
    try:
        channel = Patient(case.connection).open_channel(f"exec /bin/sh -s {mark}")
        try:
            began, answer, whole = _converse(channel, text, mark)
            said = answer or _errors(channel)
        finally:
            channel.close()
    except RemoteError as error:
        yield failure("shell", error.message, "the connection broke: look at sshd's log there")
        return
    noise, case.sections = parse(answer, mark)
    case.clock_s = (before, before + began - asked)
    if "begin" not in case.sections:
        yield _no_shell(said, whole)
        return
    yield from _judge_shell(case.sections, noise, began - asked)
    if "end" not in case.sections:
        last = next(reversed(case.sections))
        hint = "a file system hangs there, or the machine is overloaded: try df and uptime"
        yield failure("shell", f"the answer stops at {last}" + ("" if whole else f" for {LOOK_S:.0f} s"), hint)


def _converse(channel: Channel, text: str, mark: str) -> tuple[float, str, bool]:
    """When the answer began, the answer, and whether it ended by itself. Raises RemoteError."""
    deadline = clock.monotonic() + LOOK_S
    answer = b""
    began = deadline
    begin, end = f"\n{mark} begin ".encode(), f"\n{mark} end\n".encode()
    with contextlib.suppress(RemoteError, TimeoutError):
        # one that runs no commands may be gone before it has taken all; what it said is the answer
        channel.send(text.encode("utf-8", "surrogateescape"), LOOK_S)
    while end not in answer and len(answer) < MAX_ANSWER:
        try:
            data = channel.receive(max(0.01, deadline - clock.monotonic()))
        except TimeoutError:
            return began, answer.decode("utf-8", "replace"), False
        except (OSError, EOFError) as error:
            raise RemoteError(f"connection lost: {error or 'closed'}") from error
        if not data:
            break
        answer += data
        if began == deadline and begin in answer:
            began = clock.monotonic()
    return began, answer.decode("utf-8", "replace"), True


def _errors(channel: Channel) -> str:
    try:
        return channel.receive_error(1.0).decode("utf-8", "replace")
    except (OSError, EOFError):
        return ""


def _no_shell(said: str, whole: bool) -> Finding:
    first = next((line.strip() for line in said.splitlines() if line.strip()), "(nothing)")[:200]
    if whole:
        hint = (
            "a forced command (command= in authorized_keys, ForceCommand), a nologin shell, or a start-up file of the "
            "shell that ends it: ssh there and try `sh -c true`"
        )
        return failure("shell", f"the account cannot run commands; it said: {first}", hint)
    hint = "a start-up file of the login shell waits for something, or the home hangs: ssh there and look"
    return failure("shell", f"the login shell runs nothing within {LOOK_S:.0f} s; it said: {first}", hint)


def _judge_shell(sections: Sections, noise: str, took: float) -> Iterator[Finding]:
    facts = _facts(sections, "account")
    name = facts.get("shell") or "?"
    if noise.strip():
        first = next(line.strip() for line in noise.splitlines() if line.strip())[:80]
        hint = "mgpu passes over it, scp, rsync and sftp do not: print in ~/.bashrc and the like only if [ -t 1 ]"
        yield warning("shell", f"{name} prints at login: {first}", hint)
    if took > SLOW_SHELL_S:
        hint = "look at its start-up files (conda, module, network homes): each connection waits for them"
        yield warning("shell", f"{name} takes {took:.1f} s to begin", hint)
    if not noise.strip() and took <= SLOW_SHELL_S:
        yield ok("shell", f"{name} runs commands and prints nothing of its own, in {1000 * took:.0f} ms")


def _facts(sections: Sections, name: str) -> dict[str, str]:
    """`word value` a line; of a word that comes twice the last."""
    pairs = (line.partition(" ") for line in sections[name][1])
    return {word: value.strip() for word, _, value in pairs if word}


def tools(case: Case) -> Iterator[Finding]:
    if "tools" not in case.sections:
        yield _untold("tools")
        return
    missing = [line for line in case.sections["tools"][1] if line]
    if missing and all("(for --" in line for line in missing):
        hint = "install it on the node (script: Debian's bsdutils): jobs that need it run elsewhere meanwhile"
        yield warning("tools", f"missing: {', '.join(missing)}", hint)
    elif missing:
        hint = "install coreutils, util-linux, findutils and grep on the node, where PATH of a plain login finds them"
        yield failure("tools", f"missing: {', '.join(missing)}", hint)
    else:
        yield ok("tools", "sh, setsid, flock, timeout, tail and the rest are there")


def _untold(check: str) -> Finding:
    return skipped(check, "the node's answer stops before it")


def home(case: Case) -> Iterator[Finding]:
    if "home" not in case.sections:
        yield _untold("home")
        return
    status, _, place = case.sections["home"][0].partition(" ")
    facts = _facts(case.sections, "home")
    if status != "0":
        why = facts.get("error", "").rpartition(": ")[2] or ("it hangs" if status in HUNG else f"status {status}")
        hint = "make room there or mend its rights; run_dir: in the inventory puts jobs elsewhere"
        if not facts.get("home"):
            hint = "the account has no home: run_dir: in the inventory names a place for jobs"
        yield failure("home", f"jobs cannot be written to {place}: {why}", hint)
    else:
        yield _room(place, facts)
    if "workdir" in case.sections and case.sections["workdir"][0] != "0":
        why = " ".join(case.sections["workdir"][1]).rpartition(": ")[2].strip() or "it hangs"
        yield failure(
            "workdir", f"{case.node.workdir}: {why}", "jobs start there by the inventory's workdir: make or mend it"
        )


def _room(place: str, facts: Mapping[str, str]) -> Finding:
    kib = numeral(facts.get("kib", ""))
    mib = None if kib is None else kib // 1024
    inodes = numeral(facts.get("inodes", "")) or 0
    free = "free space unknown" if mib is None else f"{mib / 1024:.1f} GiB free"
    text = f"{place} can be written, {free}"
    if mib is not None and mib < LOW_MIB:
        return warning("home", text, "output of jobs goes there until it is collected: make room, or name a run_dir")
    if 0 < inodes < LOW_INODES:
        return warning("home", f"{text}, but only {inodes} more files", "remove small files there, or name a run_dir")
    return ok("home", text)


def python(case: Case) -> Iterator[Finding]:
    """What a job would find, once the inventory's setup has run."""
    if "python" not in case.sections:
        yield _untold("python")
        return
    facts = _facts(case.sections, "python")
    if facts.get("ready") != "1":
        why = "does not end within 5 s" if case.sections["python"][0] in HUNG else "does not come to its end"
        text = f"the inventory's setup {why}" if case.node.setup else f"a shell there {why}"
        yield warning("python", text, "jobs run it first: try it in bash on the node")
    elif "python" not in facts:
        yield ok("python", "there is none where jobs look for it")
    else:
        torch = f"torch {facts['torch']}" if "torch" in facts else "no torch"
        yield ok("python", f"Python {facts['python']}, {torch}" + (", after setup" if case.node.setup else ""))


def locks(case: Case) -> Iterator[Finding]:
    if "locks" not in case.sections:
        yield _untold("locks")
        return
    status, lines = case.sections["locks"]
    facts = _facts(case.sections, "locks")
    mode = facts.get("tmp", "").partition(" ")[0]
    hint = "leases of GPUs lie there, for all accounts: chmod 1777 /tmp on the node (root)"
    if status != "0":
        why = facts.get("error", "").rpartition(": ")[2] or f"status {status}"
        yield failure("locks", f"no lease can be made and locked in /tmp: {why}", hint)
        return
    if mode and not mode.endswith("777"):
        yield failure("locks", f"/tmp has mode {mode}: not all accounts can make leases there", hint)
        return
    mounted = facts.get("mounted", "")
    if "-inst/" in mounted or "systemd-private" in mounted:
        hint = (
            "masters of different accounts do not see each other's leases: no polyinstantiation of /tmp (pam_namespace)"
        )
        yield warning("locks", f"each account has a /tmp of its own ({mounted})", hint)
        return
    uuids = {str(gpu.uuid) for gpu in case.observation.gpus} if case.observation else set()
    blocked = list(_blocked(lines, uuids))
    if blocked:
        yield failure("locks", "; ".join(blocked[:3]), "nobody gets that GPU: have its owner, or root, remove it")
    else:
        yield ok("locks", "leases in /tmp can be made and locked by every account")


def _blocked(lines: list[str], uuids: set[str]) -> Iterator[str]:
    """Leases of these GPUs that not everybody can use."""
    for line in lines:
        words = line.split(" ", 4)
        if words[0] != "lease" or len(words) < 5 or words[3].rpartition("/mgpu.lease.")[2] not in uuids:
            continue
        _, mode, owner, path, kind = words
        if kind != "directory":
            yield f"{path} of {owner} is no directory but a {kind}"
        elif not int(mode, 8) & 0o4:
            yield f"{path} of {owner} is closed to others (mode {mode})"


def logind(case: Case) -> Iterator[Finding]:
    if "logind" not in case.sections:
        yield _untold("logind")
        return
    source, *lines = [*case.sections["logind"][1], ""]
    user = case.sections["account"][0]
    if source == "property":
        kills, only, excluded = ([*map(shlex.split, filter(None, lines)), [], [], []])[:3]
        kill = kills[1:] == ["true"] and (not only[2:] or user in only[2:]) and user not in excluded[2:]
    elif source == "file":
        said = [line.partition("=")[2].strip().lower() for line in lines if "=" in line]
        kill = bool(said) and said[-1] in ("yes", "true", "1", "on")
    else:
        yield ok("logind", "no logind there that could end jobs at logout")
        return
    if kill:
        hint = f"in /etc/systemd/logind.conf there (root): KillUserProcesses=no, or KillExcludeUsers=root {user}"
        yield failure("logind", "KillUserProcesses is on: jobs die when the last connection of mgpu ends", hint)
    else:
        yield ok("logind", "KillUserProcesses is off: jobs outlive the login")


def clocks(case: Case) -> Iterator[Finding]:
    told = numeral(case.sections["begin"][0])
    if told is None:
        yield skipped("clock", "the node does not tell its time")
        return
    before, after = case.clock_s
    # it was told in whole seconds, somewhere between ours before and after
    least, most = told - after, told + 1 - before
    offset = 0.0 if least <= 0 <= most else min(least, most, key=abs)
    if abs(offset) > CLOCK_S:
        text = f"the node's clock is {abs(offset):.0f} s {'ahead of' if offset > 0 else 'behind'} ours"
        hint = "run chrony or ntpd on both: jobs are not hurt, but times of files and logs are wrong, and tokens expire"
        yield warning("clock", text, hint)
    else:
        yield ok("clock", f"within {max(abs(least), abs(most), 1):.0f} s of ours")
