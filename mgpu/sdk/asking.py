"""From what a program gives to what is sent: submissions, filters, wishes."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from mgpu.client import submission
from mgpu.client.command import argv, batch_command, command_of
from mgpu.client.http import MasterError
from mgpu.client.states import written_out
from mgpu.client.submission import Prepared
from mgpu.client.zone import own_zone
from mgpu.sdk import keywords
from mgpu.sdk.following import Since, beginning_at
from mgpu.sdk.values import Job, JobId, Refused, Submitted, number

Command = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
AnyJob = JobId | Submitted | Job
WithOptions = tuple[Command, Mapping[str, Any]]
T = TypeVar("T")


def prepared(
    kind: str,
    command: Command,
    args: Iterable[object],
    options: Mapping[str, Any],
    request_id: str | None = None,
    key: str | None = None,
) -> Prepared:
    """Raises MasterError (bad_request), TypeError."""
    told, env = keywords.given(options, kind)
    words = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in several("args", args)]
    meant = _command(command, words, told)
    named = os.fspath(command) if isinstance(command, str | os.PathLike) else ""
    every = dict.fromkeys(keywords.names_of(kind).values())  # what is not given, a variable may
    made = submission.prepare({**every, **told}, meant, kind, named, env)
    if request_id is not None:
        made.body["request_id"] = request_id
    if key is not None:
        made.body["key"] = key
    return made


def many(commands: Iterable[Command | WithOptions], options: Mapping[str, Any]) -> Iterator[Prepared]:
    """Each with its own options, which count more than those of all."""
    for each in several("commands", commands):
        command, own = _parted(each)
        told = {**options, **own}
        apart = {name: told.pop(name, None) for name in ("args", "request_id", "key")}
        yield prepared("batch", command, apart["args"] or (), told, apart["request_id"], apart["key"])


def several(name: str, given: Iterable[T]) -> Iterable[T]:
    """Raises TypeError for a text, each letter of which would be one of them, and for what is none at all."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"{name}: a list is meant, and this is a {type(given).__name__}: {reprlib.repr(given)}")
    return given


def _parted(each: Command | WithOptions) -> WithOptions:
    if isinstance(each, tuple) and len(each) == 2 and isinstance(each[1], Mapping):
        return each
    return cast(Command, each), {}


def _command(command: Command, words: list[str], told: Mapping[str, Any]) -> dict[str, Any]:
    """As the wire has it."""
    if command is None:
        if "each_line" not in told:
            raise TypeError("command is None: give a list of words, a shell's line, a script, or each_line")
        return command_of(words, False, "batch", told)
    if "each_line" in told:
        raise TypeError("each_line gives the commands: leave out the other")
    if isinstance(command, os.PathLike):
        return _script_at(os.fspath(command), words)
    if not isinstance(command, str):
        return argv([*map(_word, several("command", command)), *words])
    if command.startswith("#!") and "\n" in command:
        return {"form": "script", "words": words, "script": command, "script_name": "script"}
    return batch_command([command, *words])


def _script_at(path: str, words: list[str]) -> dict[str, Any]:
    if not Path(path).is_file():  # a Path always means a file that is here
        raise FileNotFoundError(f"no script at {path}")
    return batch_command([path, *words])


def _word(word: str | os.PathLike[str]) -> str:
    if isinstance(word, str | os.PathLike):
        return os.fspath(word)
    raise TypeError(f"{word!r} among the words of a command: {type(word).__name__}, not str")


def wish(**more: Any) -> dict[str, Any]:
    """A body with an id of its own: sent twice, it is one wish."""
    return {"request_id": os.urandom(16).hex(), **{key: value for key, value in more.items() if value is not None}}


def chosen(jobs: Iterable[AnyJob], filters: Mapping[str, Any]) -> dict[str, Any]:
    """Which jobs: by number, or all that pass the filters. Raises TypeError where nothing says which."""
    wanted: dict[str, Any] = filtered(filters)
    if ids := [number(job) for job in jobs]:
        wanted["ids"] = ids
    if not wanted:
        raise TypeError("which jobs? give some, or a filter: user, me, states, name, partition")
    return wanted


_FILTERS = ("user", "me", "states", "name", "partition")
_OF_LISTS = (*_FILTERS, "node", "limit")


def filtered(filters: Mapping[str, Any], names: Iterable[str] = _FILTERS) -> dict[str, Any]:
    """As the master's query has them. Raises TypeError for what is none."""
    for name in filters:
        if name not in names:
            raise TypeError(f"{name!r} is no filter: these are {', '.join(names)}")
    wanted = {name: value for name, value in filters.items() if value not in (None, False, "")}
    if "states" in wanted:
        states = wanted["states"]
        wanted["states"] = written_out(states if isinstance(states, str) else ",".join(several("states", states)))
    return wanted | ({"me": "1"} if "me" in wanted else {})


def listed(filters: Mapping[str, Any], since: Since | None = None, until: Since | None = None) -> dict[str, Any]:
    moments = {name: beginning_at(None, at)["since"] for name, at in (("since", since), ("until", until))}
    zone = own_zone() if any(moments.values()) else None
    return {**filtered(filters, _OF_LISTS), **moments, "zone": zone}


def done(answer: Mapping[str, Any], name: str) -> list[JobId]:
    """The jobs that were changed. Raises MasterError if one was refused; Refused if it was one of several."""
    ids: list[JobId] = list(answer[name])
    errors = [
        MasterError(str(error.get("code", "error")), str(error["message"]), str(error.get("hint", "")))
        for error in answer.get("errors") or ()
    ]
    if len(errors) == 1 and not ids:
        raise errors[0]
    if errors:
        raise Refused(ids, errors)
    return ids
