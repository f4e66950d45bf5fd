"""The keys of cluster_config.yaml and of inventory files: their types, limits and defaults (docs/configuration.md).

Values come as text (see document.py) and each type here reads its own. A key without a value counts as left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    model_validator,
)

from mgpu.config import times
from mgpu.config.faults import did_you_mean
from mgpu.config.model import DAY_S, OUTPUT_MAX, SHIP_MAX
from mgpu.config.sshconfig import parse_jump
from mgpu.core.plan import DESKTOP, Limits, Window

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_POLICY = re.compile(r"fill_first|spread|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_the_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return {} if data is None else data
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}


def _reading(read: Callable[[str], Any]) -> BeforeValidator:
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
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@\\$+-]*", text):
        raise ValueError(f"{text!r} is no login name")
    return text


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


def _mode(text: str) -> str:
    if text == "shared":
        raise ValueError("'shared' is not available yet: leave mode out, or write personal")
    return text


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


Whole = Annotated[int, _reading(_whole)]
Count = Annotated[Whole, Field(ge=0)]
Port = Annotated[Whole, Field(ge=1, le=65535)]
Name = Annotated[str, _reading(_name)]
Login = Annotated[str, _reading(_login)]
Policy = Annotated[str, _reading(_policy)]
Jump = Annotated[str, _reading(_jump)]
RemotePath = Annotated[str, _reading(_remote_path)]
Program = Annotated[str, _reading(_program)]
LocalPath = Annotated[Path, BeforeValidator(_local_path)]
KeyFile = Annotated[LocalPath, AfterValidator(_key_file)]
Names = Annotated[list[Name], _reading(parts), Field(min_length=1)]
Logins = Annotated[list[Login], _reading(parts), Field(min_length=1)]
Environment = dict[Annotated[str, _reading(_variable)], Annotated[str, BeforeValidator(_given)]]
Seconds = Annotated[float, _reading(times.seconds), Field(gt=0)]
SecondsOrNever = Annotated[float, _reading(times.seconds_or_never), Field(gt=0)]
SizeBytes = Annotated[int, _reading(_size)]
LimitS = Annotated[int | None, _reading(_limit)]
PlanningS = Annotated[int, _reading(_planning)]
Maintenance = list[Annotated[Window, PlainValidator(_window)]]


class Ssh(Section):
    port: Port | None = None
    user: Login | None = None
    identity_file: KeyFile | None = None
    known_hosts: LocalPath | None = None
    proxy_jump: Jump | None = None


class Network(Section):
    address: str = ""
    interface: str = ""


class External(Section):
    policy: Literal["avoid", "ignore"] = "avoid"
    ignore: list[str] = list(DESKTOP)
    memory_threshold_mib: Count = 0


class NodeHealth(Section):
    check: str = ""
    check_timeout: Seconds = 10.0


class NodeDefaults(Section):
    """What `defaults:` may hold: all of a node but its identity."""

    connection: Literal["ssh", "local"] = "ssh"
    ssh: Ssh = Ssh()
    gpu_count: Count | None = None
    devices: Annotated[list[Count], Field(min_length=1)] | None = None
    gpu_type: str = ""
    gpu_memory: SizeBytes | None = None
    cpus: Count | None = None
    host_memory: SizeBytes | None = None
    partition: Names = []
    switch: str = ""
    network: Network = Network()
    external: External = External()
    health: NodeHealth = NodeHealth()
    maintenance: Maintenance = []
    nvidia_smi: Program = ""
    workdir: RemotePath = ""
    run_dir: RemotePath = ""
    login_shell: bool = False
    setup: str = ""
    env: Environment = {}


class NodeEntry(NodeDefaults):
    """node_id, hostname, ip and network.address may be hostlists that run in step. That node_id is missing is told
    with the ranges: an entry without it is checked all the same."""

    node_id: str = ""
    hostname: str = ""
    ip: str = ""


class Cluster(Section):
    name: str = "mgpu"


class Master(Section):
    mode: Annotated[Literal["personal"], _reading(_mode)] = "personal"
    state_dir: LocalPath | None = None
    idle_exit: SecondsOrNever = 600.0


class LimitsOf(Section):
    gpus: Count | None = None
    jobs: Count | None = None
    queued: Count | None = None
    gpu_hours: Annotated[float | None, _reading(_hours), Field(ge=0)] = None

    def read(self) -> Limits:
        return Limits(self.gpus, self.jobs, self.queued, self.gpu_hours)


class Partition(Section):
    default_time: LimitS = None
    max_time: LimitS = None
    planning_time: PlanningS = DAY_S
    priority: Whole = 0
    allow_users: Logins = []
    limits: LimitsOf = LimitsOf()
    user_limits: LimitsOf = LimitsOf()

    @model_validator(mode="after")
    def _default_within_limit(self) -> Partition:
        if self.default_time is not None and self.max_time is not None and self.default_time > self.max_time:
            raise ValueError("default_time is more than max_time")
        return self


class Account(Section):
    shares: Annotated[Whole, Field(ge=1, le=1_000_000)] = 1
    users: Logins = []
    limits: LimitsOf = LimitsOf()

    @model_validator(mode="after")
    def _has_users(self) -> Account:
        if not self.users:
            raise ValueError("has no users: [ann, bob]")
        return self


class Networking(Section):
    heartbeat_interval: Seconds = 30.0
    timeout: Seconds = 60.0
    login_timeout: Seconds = 30.0
    probe_timeout: Seconds = 45.0


class FairShareTimes(Section):
    """`half_life: none` = use does not count; `longest_wait: 0` = in order of submission alone."""

    half_life: SecondsOrNever = 7 * DAY_S
    longest_wait: Annotated[float, _reading(times.seconds_or_never), Field(ge=0)] = 28 * DAY_S


class Scheduling(Section):
    default_policy: Policy = "fill_first"
    backfill: Literal["easy", "skip", "none"] = "easy"
    fair_share: FairShareTimes = FairShareTimes()
    user_limits: LimitsOf = LimitsOf()


class Retries(Section):
    max: Count = 5
    requeues: Count = 20
    backoff: Seconds = 10.0
    backoff_max: Seconds = 600.0


class Health(NodeHealth):
    unhealthy_after: Annotated[Whole, Field(ge=1)] = 3


class Output(Section):
    max_size: SizeBytes = OUTPUT_MAX


class Ship(Section):
    max_size: SizeBytes = SHIP_MAX


class Settings(Section):
    """All of cluster_config.yaml but `defaults` and `nodes`, which are read one by one."""

    cluster: Cluster = Cluster()
    master: Master = Master()
    inventory: LocalPath | None = None
    defaults: Any = None
    nodes: Any = None
    partitions: dict[Name, Partition] | None = None
    accounts: dict[Name, Account] = {}
    admins: Logins = []
    networking: Networking = Networking()
    scheduling: Scheduling = Scheduling()
    retries: Retries = Retries()
    health: Health = Health()
    output: Output = Output()
    ship: Ship = Ship()
    external: External = External()
    maintenance: Maintenance = []


class InventoryFile(Section):
    defaults: Any = None
    nodes: Any = None
