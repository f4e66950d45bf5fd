"""What a node's records about a part mean. Pure: records in, news out.

The records are those at the head of remote/node.sh. An answer is a look at one instant; the same records always give
the same news, so it may be read again at will.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mgpu.core.lifecycle import News, PartEvent
from mgpu.core.model import REQUEUE, AttemptState, FailureClass, JobId, Part, PartKey
from mgpu.core.retry import LEFTOVER
from mgpu.numeral import numeral


@dataclass(frozen=True, slots=True)
class PartAnswer:
    """The records of one run directory. `alive`: its supervisor still runs. `sizes`: of stdout and stderr. `asks`: what
    it has asked to be started on the job's other nodes, and has no answer to yet."""

    records: Mapping[str, str] = field(default_factory=dict)
    alive: bool = False
    sizes: tuple[int, int] | None = None
    step: str = ""
    asks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """A look at several run directories. `uptime_s` and `boot_id` are the node's at that instant, `at` is our time."""

    parts: Mapping[str, PartAnswer]
    uptime_s: float
    boot_id: str
    at: float

    def when(self, uptime: str) -> float:
        """Our time of a moment that the node wrote down as its uptime: no clock of the node is believed."""
        seconds = uptime_of(uptime)
        return self.at if seconds is None else self.at - max(0.0, self.uptime_s - seconds)


# Records lie in the account's home, where a job can write what it likes: only what a kernel would say is a value.
_UPTIME = re.compile(r"\d{1,10}(?:\.\d{1,9})?", re.ASCII)
_MOST_EXIT_CODE = 255


def uptime_of(text: str) -> float | None:
    """Seconds since the node's boot; None = it cannot be read."""
    return float(text) if _UPTIME.fullmatch(text) else None


_FAILURES = {
    "node": FailureClass.NODE,
    "supervisor": FailureClass.SUPERVISOR,
    "directory": FailureClass.DIRECTORY,
    "newcomer": FailureClass.NEWCOMER,
    "port": FailureClass.PORT,
    "aborted": FailureClass.STOPPED,
}


def directory_name(key: PartKey) -> str:
    """Of the run directory. The rank is not in it: an attempt has one part a node."""
    return f"{key.job_id}.{key.attempt}"


def news_of(part: Part, token: str, answer: NodeAnswer) -> list[News]:
    """What this look tells about the part, oldest first; [] = nothing that we did not know."""
    found = answer.parts.get(directory_name(part.key), PartAnswer())
    at = answer.at
    gate = found.records.get("pid", "")
    if part.boot_id and part.boot_id != answer.boot_id:
        return _before_the_reboot(part, found, answer)
    if not gate:
        # what was not known to run when it was asked may have begun since
        if part.started is None:
            return [News(part.key, PartEvent.FOUND_ABSENT, at)]
        return [News(part.key, PartEvent.GONE, at, reason="its run directory was removed while it ran")]
    if gate == "fenced":
        return [News(part.key, PartEvent.FENCED, at)]
    _, _, boot_id, owner = ([*gate.split(":"), "", "", ""])[:4]
    if owner != token:
        return [News(part.key, PartEvent.LAUNCH_FAILED, at, failure=FailureClass.NODE, reason=_FOREIGN_GATE)]
    if boot_id != answer.boot_id:
        return _before_the_reboot(part, found, answer)
    return [*_progress(part, found, answer), *_outcome(part, found, answer)]


def _before_the_reboot(part: Part, found: PartAnswer, answer: NodeAnswer) -> list[News]:
    """What was recorded then still counts: an exit, and that the command ran at all: it may not always run again."""
    progress = _progress(part, found, answer) if "pid" in found.records else []
    if "pid" in found.records and "exit" in found.records:
        # it may not have come to `clean` any more; a stop that reached the node is among its records
        ended_by = "" if _own_end(found) else found.records.get("stop", "")
        return [*progress, replace(_exit_of(part.key, found, answer), ended_by=ended_by)]
    # at the latest when it came up again, and not when it was heard of
    return [*progress, News(part.key, PartEvent.REBOOTED, answer.when("0"), reason="the node rebooted")]


def _progress(part: Part, found: PartAnswer, answer: NodeAnswer) -> list[News]:
    news = []
    at = answer.at
    if "stop" in found.records and not part.stop and not _own_end(found):
        # decided on the node: the time limit
        news.append(News(part.key, PartEvent.STOP_WANTED, at, stop=found.records["stop"]))
    if part.state is AttemptState.RUNNING and part.pid is not None:
        return news  # it is known to run
    known = _gate(found.records["pid"])
    if "started" in found.records:
        _, when, notice = ([*found.records["started"].split(":"), "", ""])[:3]
        news.append(News(part.key, PartEvent.STARTED, answer.when(when), notice=notice.strip("-"), **known))
    elif "ready" in found.records:
        news.append(News(part.key, PartEvent.READY, at, **known))
    elif found.alive:
        news.append(News(part.key, PartEvent.BEGUN, at, **known))
    return news


def _outcome(part: Part, found: PartAnswer, answer: NodeAnswer) -> list[News]:
    if "exit" in found.records and "clean" in found.records:
        return [_exit_of(part.key, found, answer)]
    if "stuck" in found.records:
        reason = f"processes cannot be killed: {found.records['stuck']}"
        return [News(part.key, PartEvent.STUCK, answer.at, reason=reason)]
    if not found.alive:
        stop = LEFTOVER if "exit" in found.records else ""
        return [News(part.key, PartEvent.ORPHANED, answer.at, stop=stop, reason="the supervising shell is gone")]
    return []


def limit_of(found: PartAnswer) -> int | None:
    """Seconds that a part which has started may run, as its node was told; None = as long as it wants, or what stands
    there is no time. The inverse of what the runner and `limit` write down."""
    deadline = numeral(found.records.get("deadline", ""))
    started = uptime_of(([*found.records.get("started", "").split(":"), ""])[1])
    return None if deadline is None or started is None else deadline - int(started) - 1


def _own_end(found: PartAnswer) -> bool:
    """The node saw the command end before it sent it any signal: a stop that came then came too late."""
    return found.records.get("clean", "").endswith(":own")


def _exit_of(key: PartKey, found: PartAnswer, answer: NodeAnswer) -> News:
    ended_by = "" if _own_end(found) else found.records.get("stop")
    sizes = found.sizes if "clean" in found.records else None  # else somebody may still be writing
    return replace(_exit_news(key, found.records["exit"], answer.when), ended_by=ended_by, sizes=sizes)


_NO_EXIT_CODE = "its exit code was not recorded"
_FOREIGN_GATE = "the run directory belongs to another attempt of the same number"


def _exit_news(key: PartKey, record: str, when: Callable[[str], float]) -> News:
    """`CODE:UPTIME`, or `fail:CLASS:TEXT:UPTIME`."""
    head, _, uptime = record.rpartition(":")
    at = when(uptime)
    if not head.startswith("fail:"):
        code = numeral(head)
        if code is None or code > _MOST_EXIT_CODE:
            # never taken for a success
            return News(key, PartEvent.EXITED, at, failure=FailureClass.SUPERVISOR, reason=_NO_EXIT_CODE)
        return News(key, PartEvent.EXITED, at, exit_code=code)
    _, word, text = ([*head.split(":", 2), "", ""])[:3]
    failure = _FAILURES.get(word, FailureClass.NODE)
    event = PartEvent.EXITED if failure is FailureClass.SUPERVISOR else PartEvent.LAUNCH_FAILED
    return News(key, event, at, failure=failure, reason=text)


def event_news(line: str, when: Callable[[str], float]) -> tuple[News, ...]:
    """A line of the events file: `JOB.ATTEMPT started UPTIME NOTICE GATE`, `ready UPTIME GATE`,
    `requeue`, `ended STOP OUT,ERR, RECORD` (STOP is = where the command ended by itself; sizes in bytes). A hint: what
    cannot be read is left to the next look."""
    name, _, rest = line.partition(" ")
    word, _, rest = rest.partition(" ")
    key = _key(name)
    if key is None:
        return ()
    words = rest.split(" ")
    if word == "started" and len(words) == 3:
        return (News(key, PartEvent.STARTED, when(words[0]), notice=words[1].strip("-"), **_gate(words[2])),)
    if word == "ready" and len(words) == 2:
        return (News(key, PartEvent.READY, when(words[0]), **_gate(words[1])),)
    if word == "requeue":
        return (News(key, PartEvent.STOP_WANTED, when(""), stop=REQUEUE),)
    if word == "ended":
        stop, _, rest = rest.partition(" ")
        sizes, _, record = rest.partition(" ")
        if not record:
            return ()
        news = replace(_exit_news(key, record, when), sizes=_sizes(sizes))
        if news.reason == _NO_EXIT_CODE:
            return ()
        if stop == "-":
            return (news,)
        if stop == "=":
            return (replace(news, ended_by=""),)
        return (News(key, PartEvent.STOP_WANTED, news.at, stop=stop), replace(news, ended_by=stop))
    return ()


def left_behind(line: str) -> tuple[PartKey, int] | None:
    """Another one: `JOB.ATTEMPT leftover PID...`."""
    name, *words = line.split() or [""]
    key = _key(name)
    if key is None or words[:1] != ["leftover"] or not words[1:]:
        return None
    return key, len(words) - 1


_ASK = re.compile(r"\d{1,10}\.\d{1,14}", re.ASCII)


def is_ask(text: str) -> bool:
    """As such names are made: what goes into a request is no more than that."""
    return _ASK.fullmatch(text) is not None


def ask_told(line: str) -> tuple[PartKey, str, bool] | None:
    """One more: `JOB.ATTEMPT ask ID`, or `JOB.ATTEMPT worked ID`; the last: it is the latter."""
    name, _, rest = line.partition(" ")
    word, _, ask = rest.partition(" ")
    key = _key(name)
    if key is None or word not in ("ask", "worked") or not is_ask(ask):
        return None
    return key, ask, word == "worked"


def _key(name: str) -> PartKey | None:
    """Of a run directory's name: an attempt has one part a node, and the master knows its rank."""
    job, _, attempt = name.partition(".")
    numbers = numeral(job), numeral(attempt)
    if numbers[0] is None or numbers[1] is None:
        return None
    return PartKey(JobId(numbers[0]), numbers[1], ANY_RANK)


def _sizes(text: str) -> tuple[int, int] | None:
    numbers = [numeral(word) for word in text.split(",")]
    if len(numbers) != 3 or numbers[0] is None or numbers[1] is None:
        return None
    return numbers[0], numbers[1]


ANY_RANK = -1  # in a key: the part on the node that the news comes from


def _gate(text: str) -> dict[str, Any]:
    """PID:TICKS:BOOT, as keywords of News."""
    pid, ticks, boot_id = ([*text.split(":"), "", ""])[:3]
    # pid 0: the job was found without its run directory, nobody watches over it
    return {"pid": numeral(pid) or None, "start_ticks": numeral(ticks), "boot_id": boot_id}


def refusal(key: PartKey, text: str, at: float, failure: FailureClass = FailureClass.NODE) -> News:
    """The node answered that it cannot start the part, and that nothing can start it any more."""
    return News(key, PartEvent.LAUNCH_FAILED, at, failure=failure, reason=text)


def fenced(key: PartKey, at: float) -> News:
    return News(key, PartEvent.FENCED, at)
