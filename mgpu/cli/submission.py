"""What a command submits: prepared from its command line, tried, sent; and what is to be said of it on the way."""

from __future__ import annotations

from mgpu.cli.session import Session
from mgpu.cli.syntax import Words
from mgpu.cli.text import say
from mgpu.client import submission
from mgpu.client.command import command_of
from mgpu.client.http import MasterError
from mgpu.client.options import seconds
from mgpu.client.submission import Prepared, with_place
from mgpu.lean.typing import Any, Mapping
from mgpu.wording.letters import clean


def prepare(given: Mapping[str, Any], typed: Words, kind: str) -> Prepared:
    """Raises MasterError (bad_request)."""
    command = command_of(typed.words, typed.dashed, kind, given)
    prepared = submission.prepare(given, command, kind, typed.words[0] if typed.words else "")
    if not prepared.options.get("quiet"):
        if prepared.shipment is not None:
            from mgpu.cli.ship import tell_what_stays

            tell_what_stays(prepared.shipment)
        for notice in prepared.notices:
            say(notice)
    return prepared


def test_only(session: Session, prepared: Prepared) -> None:
    """Says when and where it would start. Raises MasterError for what would be refused."""
    from mgpu.wording.jobs import expected_on, prospects

    answer = session.call("POST", "/v1/jobs/test", prepared.body)
    if session.json:
        session.print_json(answer)
        return
    for notice in () if prepared.options.get("quiet") else answer["notices"]:
        say(notice)
    lines = prospects(answer)
    if answer["held"]:
        lines = ["it would be held", *_others(answer)]
    elif answer.get("waits_for"):
        lines = [*_others(answer), *lines]
        if answer.get("untold"):
            lines.append(f"when it would start cannot be told: {answer['untold']}")
    elif answer["now"]:
        lines = [f"it would start now on {expected_on(answer['expected_on'])}"]
    elif not answer["expected_start"]:
        because = f"{answer['reason']}: {answer['detail']}" if answer.get("reason") else "others come first"
        lines.insert(0, f"when it would start cannot be told: {clean(because)}")
    session.print_lines(lines)


def _others(answer: Mapping[str, Any]) -> list[str]:
    """What it would wait for of other jobs; an older master does not say."""
    waits_for = answer.get("waits_for")
    if not waits_for:
        return []
    return [f"it would wait for what can never be: {waits_for}" if answer["never"] else f"it would wait: {waits_for}"]


def bring(session: Session, prepared: Prepared) -> None:
    """What goes along has to be there before the job. Raises MasterError."""
    if prepared.shipment is not None and "tree" not in prepared.body:
        from mgpu.cli.ship import send_tree

        prepared.body["tree"] = send_tree(session, prepared.shipment, bool(prepared.options.get("quiet")))


def send(session: Session, prepared: Prepared) -> tuple[int, bool]:
    """Submits and shows the master's notices: the job's number, and whether it is a new one. Raises MasterError."""
    session.patience_s = seconds(prepared.options, "connection_timeout")
    bring(session, prepared)
    try:
        answer = session.call("POST", "/v1/jobs", prepared.body)
    except MasterError as error:
        raise with_place(error, prepared.options) from error
    for notice in () if prepared.options.get("quiet") else answer.get("notices") or ():
        say(notice)
    job_id, created = int(answer["job_id"]), bool(answer.get("created", True))
    if not created and prepared.body.get("key"):
        say(f"job {job_id} was submitted before with --request-id {prepared.body['key']}: it is not submitted again")
    return job_id, created
