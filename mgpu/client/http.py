"""HTTP by hand over the master's unix socket.

Written out because a library costs more start-up time than the whole command: one request, one answer, then the
connection is closed. Whoever answers must be ourselves or root, so that nobody else's process can pose as the master.
"""

from __future__ import annotations

import _socket  # of what `socket` adds to it nothing is needed, and that loads a third as much again as all of this
import os
import sys
import time

import mgpu
from mgpu import clock, exit_status
from mgpu.lean.json import dumps, loads
from mgpu.lean.typing import Any, Iterable, NamedTuple, Protocol
from mgpu.numeral import numeral

# A fresh probe of a slow node takes the longest; an answer that takes longer than this is no answer.
ANSWER_TIMEOUT_S = 180.0
CONNECT_TIMEOUT_S = 10.0

PACKED = {"Accept-Encoding": "deflate"}  # a long list is twenty times as long

NO_SIGNAL = getattr(_socket, "MSG_NOSIGNAL", 0)  # Linux has it; elsewhere it is enough that Python ignores SIGPIPE

Connection = _socket.socket

_OF_STATUS = {400: 2, 401: 77, 403: 77, 404: 1, 409: 2, 413: 2, 503: 69}


# What comes of an answer that is not as it should be, where it is read.
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
other_versions: list[str] = []  # of the master that answered last, if it is not ours

LONGEST_LINE, SHOWN = 4000, 400  # letters of what is said
LONGEST_PATH = 8000  # what the server takes, less the words around it


class MasterError(Exception):
    """What the master, or the way to it, refused. `code` is stable, `exit_code` is what a command ends with."""

    def __init__(self, code: str, message: str, hint: str = "", exit_code: int | None = None) -> None:
        message, hint = shortened(message), shortened(hint)
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.exit_code = exit_status.OF_CODE.get(code, exit_status.GENERAL) if exit_code is None else exit_code

    def __reduce__(self) -> tuple[Any, ...]:
        """Also one that a worker process has raised reaches the program that it works for."""
        return _again, (type(self), self.args), self.__dict__

    @property
    def told(self) -> str:
        return advised(self.message, self.hint)

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message, "hint": self.hint}


def _again(kind: type[MasterError], words: tuple[str, ...]) -> MasterError:
    return kind.__new__(kind, *words)


def advised(message: str, hint: str) -> str:
    """What, and what to do; a question is answered by that."""
    return f"{message}{' ' if message.endswith('?') else ': '}{hint}" if hint else message


def shortened(text: str) -> str:
    """Words that somebody gave stand in what is said of them: one of a megabyte is not said in full."""
    if len(text) <= LONGEST_LINE:
        return text
    return "\n".join(
        line if len(line) <= LONGEST_LINE else f"{line[:SHOWN]} ... {line[-SHOWN:]}" for line in text.split("\n")
    )


def bad_request(message: str, hint: str = "") -> MasterError:
    return MasterError("bad_request", message, hint)


class NoMaster(MasterError):
    """No master answers. `lasting`: nor will it, however often it is asked. `cut`: one was there, and its answer did
    not come whole."""

    lasting = cut = False

    def __init__(self, message: str, hint: str = "", lasting: bool = False, cut: bool = False) -> None:
        super().__init__("no_master", message, hint)
        self.lasting = lasting
        self.cut = cut


class Dialer(Protocol):
    """Reaches a master on another machine. `start_there`: one that is missing is started; `timeout_s`: how long a
    connection is tried, None = as ssh has it; `wake_fd`: what becomes readable when somebody has lost patience;
    `shown`: that machine; `headers`: what each request says besides, to be let in."""

    start_there: bool
    timeout_s: float | None
    wake_fd: int

    @property
    def shown(self) -> str: ...

    @property
    def headers(self) -> dict[str, str]: ...

    def connect(self) -> Connection:
        """A connection that stands, perhaps one that was kept. Raises NoMaster."""

    def keep(self, connection: Connection) -> None:
        """It was answered whole on, and can be asked again."""


class Endpoint(NamedTuple):
    """Where the master listens. `config` is the configuration that the caller means ("" = none, this machine alone;
    None = whichever the master has), `uids` those whose process may answer. `dialer` None = it is on this machine; else
    `socket_path` is only a name for it."""

    socket_path: str
    config: str | None
    uids: tuple[int, ...]
    dialer: Dialer | None = None


class Response(NamedTuple):
    """`headers` have lower-case names."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def may_be_asked_again(self) -> bool:
        """Whether the connection goes on behind this answer."""
        return "content-length" in self.headers and self.headers.get("connection", "").lower() != "close"


def connect(endpoint: Endpoint) -> Connection:
    """A connection to the master. Raises NoMaster, or MasterError when a stranger listens there."""
    if endpoint.dialer is not None:
        return endpoint.dialer.connect()
    connection = Connection(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_TIMEOUT_S)
        _connect(connection, endpoint.socket_path)
        check_server(connection, endpoint)
    except PermissionError as error:
        connection.close()
        what = f"{endpoint.socket_path}: {error.strerror}: that master is another's"
        raise MasterError("not_allowed", what, "name your own with --master, or ask its owner") from error
    except OSError as error:
        connection.close()
        what = f"no master answers at {endpoint.socket_path} ({error.strerror or error})"
        raise NoMaster(what, how_to_start_for_all(endpoint.uids)) from error
    except MasterError:
        connection.close()
        raise
    return connection


def how_to_start_for_all(uids: tuple[int, ...]) -> str:
    """Of a master that is somebody else's, and serves us too; "" = of our own."""
    if not uids or uids[0] in (os.getuid(), 0):
        return ""
    from mgpu.users import user_name

    whose = user_name(uids[0]) or f"uid {uids[0]}"
    return f"it is {whose}'s, for all: whoever looks after it starts it (systemctl status mgpu)"


def _connect(connection: Connection, path: str) -> None:
    """A socket with a timeout is told EAGAIN, and not kept waiting, while more clients wait than the master's list of
    them holds: that is no missing master."""
    deadline = clock.monotonic() + CONNECT_TIMEOUT_S
    while True:
        try:
            return connection.connect(path)
        except BlockingIOError:
            if clock.monotonic() > deadline:
                raise
            time.sleep(0.02)


def check_server(connection: Connection, endpoint: Endpoint) -> None:
    """Refuses a listener that runs as somebody else. The kernel tells its uid: it cannot be forged."""
    # struct ucred: pid, uid, gid
    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    uid = int.from_bytes(credentials[4:8], sys.byteorder)
    if uid not in endpoint.uids:
        wanted = " or ".join(str(each) for each in endpoint.uids)
        raise MasterError(
            "not_allowed",
            f"{endpoint.socket_path} is served by uid {uid}, not by uid {wanted}: not a master to trust",
            "name another with --state-dir or --master",
        )


def request_head(endpoint: Endpoint, method: str, path: str, version: str, extra: dict[str, str]) -> bytes:
    """The request line and headers, up to and with the empty line."""
    headers = {"Host": "mgpu", "X-Mgpu-Version": mgpu.__version__, "X-Mgpu-Wire": str(mgpu.WIRE), **extra}
    if endpoint.config is not None:
        headers["X-Mgpu-Config"] = endpoint.config
    if endpoint.dialer is not None:
        headers |= endpoint.dialer.headers
    lines = [f"{method} {path} HTTP/{version}", *(f"{name}: {value}" for name, value in headers.items())]
    if len(path) > LONGEST_PATH:
        raise MasterError("bad_request", "the names or filters given are too long for one request", "give fewer")
    if any(ord(letter) < 32 for line in lines for letter in line):
        raise MasterError("bad_request", f"the path {endpoint.config!r} holds control characters", "rename it")
    return os.fsencode("\r\n".join(lines) + "\r\n\r\n")


class Kept(Protocol):
    """Connections to a master on this machine, for who asks it again and again (see client/kept.py)."""

    def take(self) -> Connection | None:
        """One that stands, None = there is none."""

    def keep(self, connection: Connection) -> None: ...


def request(
    endpoint: Endpoint,
    method: str,
    path: str,
    body: Any = None,
    timeout_s: float = ANSWER_TIMEOUT_S,
    kept: Kept | None = None,
) -> Response:
    """One request, with `body` sent as JSON. Raises NoMaster when the answer does not come whole."""
    payload = b"" if body is None else dumps(body).encode()
    extra = {"Content-Type": "application/json", "Content-Length": str(len(payload))} if body is not None else PACKED
    # a way to another machine is dear, and is kept for what is asked next
    head = request_head(endpoint, method, path, "1.1" if endpoint.dialer or kept else "1.0", extra)
    return exchange(endpoint, (head + payload,), timeout_s, kept)


def exchange(
    endpoint: Endpoint, pieces: Iterable[bytes], timeout_s: float = ANSWER_TIMEOUT_S, kept: Kept | None = None
) -> Response:
    """A request as it goes over the wire, in pieces, and its answer. Raises NoMaster when that does not come whole."""
    connection, sent = (kept.take() if kept else None) or connect(endpoint), True
    try:
        connection.settimeout(timeout_s)
        try:
            for piece in pieces:
                connection.sendall(piece, NO_SIGNAL)
        except TimeoutError as error:
            raise NoMaster(f"the master at {endpoint.socket_path} takes no request") from error
        except OSError:
            sent = False  # refused before it was read whole: the answer says why
        try:
            response = read_response(connection)
        except OSError as error:
            said = f"the master at {endpoint.socket_path} did not answer ({error})"
            raise NoMaster(said, cut=True) from error
    except BaseException:
        connection.close()
        raise
    keeper = kept or endpoint.dialer
    if keeper is not None and sent and response.may_be_asked_again:
        keeper.keep(connection)
    else:
        connection.close()
    return response


def read_response(connection: Connection) -> Response:
    """Reads to the end of the connection, or to Content-Length if that comes first. Raises OSError when cut short."""
    received = bytearray()
    wanted = -1
    while wanted < 0 or len(received) < wanted:
        data = connection.recv(1 << 18)
        if not data:
            break
        received += data
        if wanted < 0 and (end := received.find(b"\r\n\r\n")) >= 0:
            length = parse_head(bytes(received[:end]))[1].get("content-length", "")
            wanted = 1 << 62 if (size := numeral(length)) is None else end + 4 + size
    head, separator, body = bytes(received).partition(b"\r\n\r\n")
    if not separator or (wanted < 1 << 62 and len(received) < wanted):
        raise OSError("the answer was cut short")
    status, headers = parse_head(head)
    return Response(status, headers, unpacked(body) if headers.get("content-encoding") == "deflate" else body)


def unpacked(body: bytes) -> bytes:
    """Raises OSError when it is damaged."""
    import zlib  # most answers are short

    try:
        return zlib.decompress(body)
    except zlib.error as error:
        raise OSError(f"the answer cannot be unpacked: {error}") from error


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers of an answer. Raises OSError when it is not HTTP."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/") or numeral(words[1]) is None:
        raise OSError("not an HTTP answer")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    version = headers.get("x-mgpu-version", mgpu.__version__)
    if version != mgpu.__version__:
        other_versions[:] = [version]
    return int(words[1]), headers


def raise_for_error(response: Response) -> None:
    """Turns an error answer into a MasterError with the master's own words."""
    if response.status < 400:
        return
    try:
        error = loads(response.body)["error"]
        code, message, hint = str(error["code"]), str(error["message"]), str(error.get("hint", ""))
    except UNREADABLE:
        code, message, hint = "error", f"the master answered HTTP status {response.status}", "see its log"
    exit_code = exit_status.OF_CODE.get(code, _OF_STATUS.get(response.status, exit_status.GENERAL))
    raise MasterError(code, message, hint, exit_code)


def quote(text: str) -> str:
    """Percent-encodes all but letters, digits and `-._~`. A fifth of what importing urllib costs: nothing."""
    safe = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    return "".join(chr(byte) if byte in safe else f"%{byte:02X}" for byte in os.fsencode(text))


def with_query(path: str, **values: Any) -> str:
    """`path?name=value&...` of the values that are set."""
    pairs = [f"{name}={quote(str(value))}" for name, value in values.items() if value not in (None, "")]
    return f"{path}?{'&'.join(pairs)}" if pairs else path
