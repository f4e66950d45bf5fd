"""What the text of a value means: the types of configuration keys (see schema), each with its own reader."""

from __future__ import annotations

import grp
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationInfo

from mgpu.config import times
from mgpu.config.faults import did_you_mean
from mgpu.config.listening import listen_host
from mgpu.config.sshconfig import parse_jump
from mgpu.core.logins import EVERYBODY, LOGIN, NONE, SAME
from mgpu.core.notices import EVENTS
from mgpu.core.plan import Window

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_POLICY = re.compile(r"fill_first|spread|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def reading(read: Callable[[str], Any]) -> BeforeValidator:
    """Reads a scalar's text. A list or mapping goes on as it is, for pydantic to refuse in its own words."""
    return BeforeValidator(lambda value: read(value) if isinstance(value, str) else value)


def _whole(text: str) -> int:
    if not re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text):
        zeros = ", without leading zeros" if re.fullmatch(r"-?0[0-9]+", text) else ""
        raise ValueError(f"must be a whole number{zeros}, not {text!r}")
    return int(text)


def _hours(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", text):
        raise ValueError(f"must be a number of GPU-hours, not {text!r}")
    return float(text)


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no name: letters, digits and . _ - only, at most 63, a letter or digit first")
    return text


def _login(text: str) -> str:
    if not LOGIN.fullmatch(text):
        raise ValueError(f"{text!r} is no login name")
    return text


def _whose(text: str) -> str:
    return text if text == EVERYBODY else _login(text)


def _others(table: dict[str, str]) -> dict[str, str]:
    if table.get(EVERYBODY, SAME) not in (SAME, NONE):
        others = table[EVERYBODY]
        raise ValueError(f"{EVERYBODY!r} must be {SAME} or {NONE}: not all others can share the login {others}")
    return table


def _policy(text: str) -> str:
    if text == "custom":
        raise ValueError("'custom' is no policy by itself: name your function as package.module:function")
    if not _POLICY.fullmatch(text):
        near = did_you_mean(text, ("fill_first", "spread"))
        raise ValueError(f"must be fill_first, spread or package.module:function, not {text!r}{near}")
    return text


def _jump(text: str) -> str:
    parse_jump(text)
    return text


def _remote_path(text: str) -> str:
    if not (text.startswith(("/", "~/")) or text == "~") or "\n" in text:
        raise ValueError(f"must be a path on the node that starts with / or ~/, not {text!r}")
    return text


def _program(text: str) -> str:
    if not text.startswith("/") or "\n" in text:
        raise ValueError(f"must be the full path of a program on the node, not {text!r}")
    return text


def _group(name: str) -> str:
    try:
        grp.getgrnam(name)
    except KeyError:
        raise ValueError(f"there is no group {name!r} on this machine") from None
    return name


def _port_range(value: Any) -> tuple[int, int]:
    """First and last."""
    found = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", value) if isinstance(value, str) else None
    first, last = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1024 <= first <= last <= 65535:
        raise ValueError(f"must be ports like 20000-29999, from 1024 to 65535, not {value!r}")
    return first, last


def _limit(text: str) -> int | None:
    limit = times.limit_s(text)
    if limit == 0:
        raise ValueError(f"must be more than 0, not {text!r}; 'none' means no limit")
    return limit


def _planning(text: str) -> int:
    limit = _limit(text)
    if limit is None:
        raise ValueError("must be a time: jobs without a limit are planned with it")
    return limit


_SIZE = re.compile(r"([0-9]{1,12})\s*([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _size(text: str) -> int:
    """Bytes; 0 = no limit."""
    if text.lower() in ("none", "unlimited"):
        return 0
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size: write it like 500M, 10G, 1048576 (bytes), or none")
    return int(found[1]) * _UNITS[found[2].upper()]


def _is_of_another(path: Path) -> bool:
    try:
        return path.stat().st_uid != os.geteuid()
    except OSError:
        return True


def _key_file(path: Path) -> Path:
    """One that could be a private key; where only the public half lies beside its name, an agent has the other."""
    try:
        if path.is_fifo():  # it would be waited for
            raise ValueError(f"{path} is not a private key")
        with path.open("rb") as file:
            head = file.read(512)
    except FileNotFoundError:
        if path.with_name(f"{path.name}.pub").exists():
            return path
        raise ValueError(f"{path} is not there") from None
    except PermissionError:
        if _is_of_another(path):
            return path  # of the master's account, and we are one of its users
        raise ValueError(f"{path} cannot be read: Permission denied") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if b"PRIVATE KEY" not in head:
        raise ValueError(f"{path} is not a private key")
    return path


def _local_path(value: Any, info: ValidationInfo) -> Any:
    """A path in a file is relative to that file."""
    if value == "":
        raise ValueError("must be a path")
    return (info.context or {})["folder"] / home_path(value) if isinstance(value, str) else value


def home_path(text: str) -> Path:
    """`~` is the user's home. Raises ValueError."""
    if "\0" in text:
        raise ValueError("must be a path: a NUL byte cannot be part of one")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"{text!r}: there is no such user") from None


def parts(text: str) -> list[str]:
    """Names with commas between them stand for a list."""
    return [part.strip() for part in text.split(",")]


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"{name!r} is no name of an environment variable")
    return name


def _given(value: Any) -> Any:
    if value is None:
        raise ValueError('has no value: write "" for an empty one')
    return value


_WINDOW_KEYS = ("from", "to", "reason")
_WINDOW_FORM = "{from: 2026-12-01 08:00, to: 2026-12-01 12:00, reason: ...}"


def _window(value: Any) -> Window:
    if not isinstance(value, dict) or not all(value.get(key) for key in _WINDOW_KEYS[:2]):
        raise ValueError(f"must be like {_WINDOW_FORM}")
    wrong = next((key for key in value if key not in _WINDOW_KEYS), None)
    if wrong is not None:
        raise ValueError(f"unknown key {wrong!r}{did_you_mean(str(wrong), _WINDOW_KEYS)}")
    told = {key: value.get(key) or "" for key in _WINDOW_KEYS}
    bad = next((key for key, each in told.items() if not isinstance(each, str) or not each.isprintable()), None)
    if bad is not None:
        raise ValueError(f"{bad} must be text, without control characters")
    start, end = times.moment(told["from"]), times.moment(told["to"])
    if end <= start:
        raise ValueError(f"ends at {told['to']}, before it begins")
    return Window(start, end, f"{told['from']} to {told['to']}", told["reason"])


def _events(value: Any) -> tuple[str, ...]:
    """`all`, `none`, or their names."""
    if value in ("all", "none"):
        return EVENTS if value == "all" else ()
    words = parts(value) if isinstance(value, str) else value
    if not isinstance(words, list):
        raise ValueError(f"must be all, none, or a list of events: {', '.join(EVENTS)}")
    for word in words:
        if word not in EVENTS:
            near = did_you_mean(str(word), EVENTS) or f": one of {', '.join(EVENTS)}"
            raise ValueError(f"there is no event {word!r}{near}")
    return tuple(words)


def _words(value: Any) -> tuple[str, ...]:
    """A command: its words, or a text for the shell."""
    if isinstance(value, str) and value.strip():
        return "/bin/sh", "-c", value
    if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
        raise ValueError('must be a command: a text for the shell, or its words, as in [/usr/local/bin/tell, "--all"]')
    return (os.fspath(home_path(value[0])), *value[1:])


Events = Annotated[tuple[str, ...], PlainValidator(_events)]
Words = Annotated[tuple[str, ...], PlainValidator(_words)]
Whole = Annotated[int, reading(_whole)]
Count = Annotated[Whole, Field(ge=0)]
Port = Annotated[Whole, Field(ge=1, le=65535)]
ListenHost = Annotated[str, reading(listen_host)]
Name = Annotated[str, reading(_name)]
Login = Annotated[str, reading(_login)]
Policy = Annotated[str, reading(_policy)]
Jump = Annotated[str, reading(_jump)]
RemotePath = Annotated[str, reading(_remote_path)]
Program = Annotated[str, reading(_program)]
LocalPath = Annotated[Path, BeforeValidator(_local_path)]
KeyFile = Annotated[LocalPath, AfterValidator(_key_file)]
Names = Annotated[list[Name], reading(parts), Field(min_length=1)]
Logins = Annotated[list[Login], reading(parts), Field(min_length=1)]
Users = Annotated[dict[Annotated[str, reading(_whose)], Login], AfterValidator(_others)]
Environment = dict[Annotated[str, reading(_variable)], Annotated[str, BeforeValidator(_given)]]
Seconds = Annotated[float, reading(times.seconds), Field(gt=0)]
SecondsOrNever = Annotated[float, reading(times.seconds_or_never), Field(gt=0)]
SamplesS = Annotated[float, reading(times.seconds), Field(ge=86_400, le=400 * 86_400)]
SizeBytes = Annotated[int, reading(_size)]
LimitS = Annotated[int | None, reading(_limit)]
PlanningS = Annotated[int, reading(_planning)]
Group = Annotated[str, reading(_group)]
Hours = Annotated[float, reading(_hours), Field(ge=0)]
Age = Annotated[float, reading(times.seconds_or_never), Field(ge=0)]
PortRange = Annotated[tuple[int, int], PlainValidator(_port_range)]
Maintenance = list[Annotated[Window, PlainValidator(_window)]]
