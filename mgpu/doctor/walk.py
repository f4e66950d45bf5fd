"""The walk: all that has to hold for a job to run on a node, each check after those that it stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mgpu.client.http import MasterError
from mgpu.core.finding import FAILURE, Finding, Findings, failure, ok, skipped, warning
from mgpu.core.smi.mig import label
from mgpu.doctor import account, gpus, login, network
from mgpu.doctor.case import Case

AT_ONCE = 32  # nodes; most of the time goes by in waiting


@dataclass(frozen=True, slots=True)
class Check:
    """`gate`: where it fails, nothing after it can be looked at. `remote`: nothing to look at where there is no SSH."""

    name: str
    look: Callable[[Case], Findings]
    gate: bool = False
    remote: bool = False


def master(case: Case) -> Iterator[Finding]:
    """What the master makes of the node, once all was well for us."""
    if case.master is None or case.master.node is None:
        return
    told = login.masters_agent(case)
    state, reason = case.master.node.get("state"), case.master.node.get("reason") or ""
    because = f": {reason}" if reason else ""
    if told:
        yield told
    elif state in ("DOWN", "UNKNOWN"):
        hint = f"mgpu node probe {case.node.name} has it ask again; if that fails, its environment differs from ours"
        yield failure("master", f"we get there, the master says {state}{because}", hint)
    elif state != "UP" or reason:
        yield warning("master", f"the master says {state}{because}", f"mgpu show node {case.node.name} says more")
    else:
        yield ok("master", "UP for the master, too")
    for gpu in case.master.node.get("gpus") or ():
        if gpu.get("drain") or gpu.get("suspect"):
            which = gpu["uuid"] if gpu["index"] is None else label(gpu["index"])
            hint = f"mgpu node resume {case.node.name}:{which} ends that"
            yield warning("master", f"GPU {which}: {gpu['reason']}", hint)


def own_jobs(case: Case) -> Iterator[Finding]:
    """Where jobs run under the accounts of their users, the master has to get into these."""
    if case.config.run_as == "service" or case.master is None or case.master.enter is None:
        return
    try:
        name, why = case.master.enter()
    except MasterError as error:
        yield warning("own jobs", error.message, error.hint)
        return
    if why:
        yield failure("own jobs", f"none of yours can start there: {why}", f"mgpu enroll {case.node.name}")
    else:
        yield ok("own jobs", f"yours run as {name} there, and the master gets in")


WALK = (
    Check("ssh", network.settings, gate=True, remote=True),
    Check("name", network.name, gate=True, remote=True),
    Check("tcp", network.tcp, gate=True, remote=True),
    Check("banner", network.banner, gate=True, remote=True),
    Check("host key", login.host_key, gate=True, remote=True),
    Check("keys", login.keys, gate=True, remote=True),
    Check("login", login.login, gate=True, remote=True),
    Check("sessions", login.sessions, gate=True, remote=True),
    Check("shell", account.shell, gate=True),
    Check("tools", account.tools, gate=True),
    Check("home", account.home),
    Check("python", account.python),
    Check("nvidia-smi", gpus.nvidia_smi),
    Check("gpus", gpus.gpus),
    Check("locks", account.locks),
    Check("logind", account.logind),
    Check("clock", account.clocks),
    Check("residue", gpus.residue),
    Check("master", master),
)


def examine(case: Case, checks: Sequence[Check] = WALK) -> list[Finding]:
    """All checks in order, up to a gate that stays shut."""
    found = list(own_jobs(case))  # that stands on nothing which is looked at from here
    if case.local:
        checks = [check for check in checks if not check.remote]
        found.append(ok("connection", "this machine, without SSH"))
        case.log_in()
    try:
        for number, check in enumerate(checks, 1):
            news = list(check.look(case))
            found += news
            if check.gate and any(finding.status == FAILURE for finding in news):
                if rest := [each.name for each in checks[number:]]:
                    found.append(skipped("the rest", f"cannot be looked at so: {', '.join(rest)}"))
                break
    finally:
        case.close()
    return found


def examine_all(cases: Iterable[Case]) -> Iterator[tuple[Case, list[Finding]]]:
    """In their order, each as soon as it is done; some at once."""
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        running = [(case, pool.submit(examine, case)) for case in cases]
        for case, future in running:
            yield case, future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
