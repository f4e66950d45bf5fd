"""mgpu node drain and resume: an operator's word about nodes and single GPUs."""

from __future__ import annotations

from mgpu.cli.refusals import print_refusals
from mgpu.cli.session import Session, node_path, refusal
from mgpu.cli.syntax import Argument, Option, command
from mgpu.client.http import MasterError
from mgpu.lean.typing import Any, Callable
from mgpu.wording.figures import count
from mgpu.wording.letters import clean

DRAIN_EXAMPLES = """
Examples:
  mgpu node drain gpu07 --reason "new fan on Monday"
  mgpu node drain gpu07:5 gpu08:0-3             single GPUs, by index or UUID
  mgpu node drain "gpu[01-16]" --reason cleaning
"""
RESUME_EXAMPLES = """
Examples:
  mgpu node resume gpu07
  mgpu node resume gpu07:5
"""


@command(
    Argument("places", "NODE[:GPUS]...", "*"), Option("--reason", "TEXT", "Shown to all."), examples=DRAIN_EXAMPLES
)
def drain(session: Session, /, places: tuple[str, ...], reason: str | None) -> int:
    """Start nothing new on nodes, or on single GPUs of them.

    What runs there goes on to its end. It stays so until `mgpu node resume`, whatever happens meanwhile to the node or
    to the master.
    """
    return told(session, "drain", places, reason, drained)


@command(
    Argument("places", "NODE[:GPUS]...", "*"), Option("--reason", "TEXT", "For the record."), examples=RESUME_EXAMPLES
)
def resume(session: Session, /, places: tuple[str, ...], reason: str | None) -> int:
    """Use nodes or single GPUs again that were drained, or GPUs that became suspect.

    A node is resumed as a whole; GPUs of it that were drained one by one are resumed one by one.
    """
    return told(session, "resume", places, reason, resumed)


def told(
    session: Session, word: str, places: tuple[str, ...], reason: str | None, words: Callable[[dict[str, Any]], str]
) -> int:
    """Each node by itself: what is wrong with one is no reason to leave out the others."""
    refused: dict[str, MasterError] = {}
    answers: list[dict[str, Any]] = []
    wanted = targets(places)
    for name, gpus in wanted.items():
        body = {"reason": reason or "", **({"gpus": gpus} if gpus else {})}
        try:
            answer = session.call("POST", f"{node_path(name)}/{word}", body)
        except MasterError as error:
            if len(wanted) == 1 or error.code == "no_master":
                raise
            refused[name] = error
            continue
        answers.append(answer)
        if not session.json:
            session.print_lines([words(answer)])
    if session.json:
        session.print_json({"nodes": answers})
    return print_refusals(session, refused)


def targets(places: tuple[str, ...]) -> dict[str, list[str]]:
    """Node -> its GPUs as typed, none = the whole node. `gpu[01-04]:0,1` means these of each of the four."""
    from mgpu.core.errors import RequestError
    from mgpu.core.hostlist import expand

    found: dict[str, list[str]] = {}
    try:
        for place in places:
            nodes, colon, gpus = place.partition(":")
            names, listed = expand(nodes), [each.strip() for each in gpus.split(",")] if colon else []
            if not names or (colon and not all(listed)):
                raise RequestError(f"{place!r}: write NODE or NODE:GPUS, like gpu07 or gpu07:0,5")
            wrong = next((each for each in listed if ":" in each), "")
            if wrong:
                raise RequestError(f"{place!r}: {wrong!r} is no GPU", "nodes with GPUs are parted by blanks")
            for name in names:
                if name in found and not (colon and found[name]):
                    raise RequestError(f"{name} is named twice", "name the node, or GPUs of it")
                found[name] = [*found.get(name, ()), *listed]
        if not found:
            raise RequestError("which node?", "name one, or GPUs of one: gpu07, gpu07:5")
    except RequestError as error:
        raise refusal(error) from error
    return found


def drained(answer: dict[str, Any]) -> str:
    """`gpu07 GPU 5: drained; job 17 goes on there`"""
    ids = answer.get("running") or []
    left = (
        f"{'job' if len(ids) == 1 else 'jobs'} {', '.join(map(str, ids))} {'goes' if len(ids) == 1 else 'go'} on there"
    )
    return f"{place_of(answer)}: drained; {left if ids else 'nothing runs there'}"


def resumed(answer: dict[str, Any]) -> str:
    nothing = "was neither drained nor suspect" if answer.get("gpus") else "was not drained"
    done = "resumed" if answer.get("changed") else nothing
    text = f"{place_of(answer)}: {done}"
    if not answer.get("gpus") and (answer.get("state") != "UP" or answer.get("reason")):
        text += f"; {clean(answer.get('state'))} {clean(answer.get('reason'))}".rstrip()
    left = answer.get("still_drained") or []
    if left:
        names = ",".join(map(clean, left))
        text += f"; {count(len(left), 'GPU')} still drained: mgpu node resume {clean(answer['node_id'])}:{names}"
    return text


def place_of(answer: dict[str, Any]) -> str:
    gpus = answer.get("gpus") or []
    return clean(answer["node_id"]) + (f" GPU {','.join(map(clean, gpus))}" if gpus else "")
