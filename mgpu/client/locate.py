"""Which configuration, which state directory, which socket: decided the same way for every command.

A file or folder that others could have written decides nothing: whoever writes the configuration says which programs
run as us, and whoever owns the socket's folder could put a master of their own there.
"""

from __future__ import annotations

import os
import stat

from mgpu.client.config_home import config_home
from mgpu.client.http import Dialer, Endpoint, MasterError
from mgpu.client.private import private_folder
from mgpu.file_system import file_system_of, why_unfit
from mgpu.lean.typing import Callable, Mapping, NamedTuple

CONFIG_NAME = "cluster_config.yaml"
SSH = "ssh://"
ELSEWHERE = (SSH, "https://", "http://")
SOCKET = "mgpu.sock"
SYSTEM_CONFIG = "/etc/mgpu/" + CONFIG_NAME
# sun_path holds 108 bytes with the final NUL; some systems hold 104.
SOCKET_PATH_LIMIT_B = 100


class Location(NamedTuple):
    """What a command works with. `personal`: start a master here when none answers; not for a state directory of
    somebody else's, who serves all from there."""

    config: str
    state_dir: str
    endpoint: Endpoint
    personal: bool
    warnings: tuple[str, ...] = ()


def locate(
    config: str | None,
    state_dir: str | None,
    master: str | None,
    environ: Mapping[str, str],
    read_state_dir: Callable[[str], str],
    system_config: str = SYSTEM_CONFIG,
) -> Location:
    """Flag > variable > place. `read_state_dir(file)` gives a configuration's `master.state_dir` or "".

    Raises MasterError (bad_request) for a file that is not there and for a master that cannot be reached this way.
    """
    url = master or environ.get("MGPU_MASTER", "")
    if url.startswith(ELSEWHERE):
        given = [name for name, value in (("--config", config), ("--state-dir", state_dir)) if value]

        def who_serves_here() -> tuple[int, ...]:
            here, _ = find_config(config, environ, system_config)
            return who_may_answer(find_state_dir(state_dir, here, environ, read_state_dir))

        return elsewhere(url, given, who_serves_here)
    found, warnings = find_config(config, environ, system_config)
    folder = find_state_dir(state_dir, found, environ, read_state_dir)
    if url:
        named = bool(config or environ.get("MGPU_CONFIG"))
        path = master_socket(url)
        endpoint = Endpoint(path, found if named else None, who_may_answer(os.path.dirname(path)))
        return Location(found, folder, endpoint, False, warnings)
    uids = who_may_answer(folder)
    ours = uids[0] == os.getuid()
    path = socket_path(folder) if ours else os.path.join(folder, SOCKET)
    return Location(found, folder, Endpoint(path, found if ours else found or None, uids), ours, warnings)


def elsewhere(url: str, given: list[str], who_serves_here: Callable[[], tuple[int, ...]] = lambda: ()) -> Location:
    """Of a master on another machine: nothing that lies here decides anything about it. `given`: options that would.
    `who_serves_here`: whose master may answer on this machine besides ours and root's, should it be on this one."""
    warnings = tuple(f"{name} means nothing to a master on another machine, which has its own" for name in given)
    return Location("", "", Endpoint(url, None, (), dialer_of(url, who_serves_here)), False, warnings)


def dialer_of(url: str, who_serves_here: Callable[[], tuple[int, ...]]) -> Dialer:
    """Raises MasterError (bad_request)."""
    if url.startswith(SSH):
        from mgpu.client import dial
        from mgpu.client.head import parse_head

        return dial.Dialer(parse_head(url))
    from mgpu.client import tcp
    from mgpu.client.address import parse_address

    return tcp.Dialer(parse_address(url), who_serves_here)


def find_config(config: str | None, environ: Mapping[str, str], system_config: str) -> tuple[str, tuple[str, ...]]:
    """The configuration's absolute path ("" = none) and what was passed over, in words."""
    named = config or environ.get("MGPU_CONFIG", "")
    if named:
        require_file(named)
        return os.path.abspath(named), ()
    warnings: tuple[str, ...] = ()
    here, distrust = config_here()
    if here and not distrust:
        require_file(here)
        return here, ()
    if here:
        warnings = (f"{here} is passed over: {distrust}; name it with --config to use it",)
    for place in (os.path.join(config_home(environ), CONFIG_NAME), system_config):
        if os.path.lexists(place):
            require_file(place)
            return place, warnings
    return "", warnings


def require_file(path: str) -> None:
    """What may not be looked at may well be there; what is there and no file is no configuration that is absent."""
    try:
        if stat.S_ISREG(os.stat(path).st_mode):
            return
    except PermissionError as error:
        raise MasterError("not_allowed", f"{path}: {error.strerror}", "name a file that you may read") from error
    except (OSError, ValueError):
        if "\0" not in path and os.path.islink(path):
            what = f"{path} is a link to what is not there"
            raise MasterError("bad_config", what, "mend it, or name another with --config") from None
        raise MasterError("bad_request", f"no configuration at {path}", "name a file with --config") from None
    what = "a folder" if os.path.isdir(path) else "no file"
    raise MasterError("bad_config", f"{path} is {what}", "mend it, or name another with --config")


def config_here() -> tuple[str, str]:
    """The configuration in the current folder ("" = none), and why it is not to be trusted. One of comments alone, such
    as comes with mgpu, is none: who works beside it means what they have elsewhere."""
    path = os.path.abspath(CONFIG_NAME)
    if not os.path.lexists(path) or _says_nothing(path):
        return "", ""
    return path, why_not_trusted(path)


def _says_nothing(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return not any(line.strip() and not line.lstrip().startswith(b"#") for line in file)
    except OSError:  # whoever loads it says why
        return False


def why_not_trusted(path: str) -> str:
    """ "" if only we or root can have written the file and can replace it, else the reason in words."""
    real = os.path.realpath(path)
    for place in dict.fromkeys((path, os.path.dirname(path), real, os.path.dirname(real))):
        if not os.path.exists(place):
            continue  # a link that leads nowhere; whoever could have made it has written in its folder
        facts = os.stat(place)
        if facts.st_uid not in (os.getuid(), 0):
            return f"{place} belongs to uid {facts.st_uid}"
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"others can write {place}"
    return ""


def find_state_dir(
    state_dir: str | None, config: str, environ: Mapping[str, str], read_state_dir: Callable[[str], str]
) -> str:
    """The state directory's absolute path; it need not exist yet."""
    named = state_dir or environ.get("MGPU_STATE_DIR", "")
    if not named and config:
        named = configured_state_dir(config, read_state_dir)
    if named:
        return os.path.abspath(os.path.expanduser(named))
    home = environ.get("XDG_STATE_HOME", "")
    base = home if os.path.isabs(home) else os.path.expanduser("~/.local/state")
    if why_unfit(file_system_of(base)):
        return private_folder(f"/var/tmp/mgpu-{os.getuid()}")
    return os.path.join(base, "mgpu")


def configured_state_dir(config: str, read_state_dir: Callable[[str], str]) -> str:
    """`master.state_dir` of the file, relative to it. YAML is loaded only where a glance does not do."""
    try:
        with open(config, "rb") as file:
            content = file.read()
    except OSError as error:
        code = "not_allowed" if isinstance(error, PermissionError) else "bad_config"
        raise MasterError(code, f"{config}: {error.strerror}", "name another with --config") from error
    if b"state_dir" not in content:
        return ""
    from mgpu.client.glance import state_dir_in

    glanced = None if why_not_trusted(config) else state_dir_in(content.decode("utf-8", "replace"))
    value = os.path.expanduser(read_state_dir(config) if glanced is None else glanced)
    return os.path.join(os.path.dirname(config), value) if value else ""


def socket_path(state_dir: str | os.PathLike[str]) -> str:
    """Where the master of a state directory listens: in it, or, if that path is too long for a socket, in a folder
    under /tmp that only we can enter. Master and client both ask here."""
    path = os.path.join(os.path.abspath(state_dir), SOCKET)
    if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT_B:
        return path
    import hashlib

    name = hashlib.sha256(os.fsencode(os.path.realpath(state_dir))).hexdigest()[:32]
    return os.path.join(private_folder(f"/tmp/mgpu-{os.getuid()}"), f"{name}.sock")


def who_may_answer(folder: str) -> tuple[int, ...]:
    """The uids whose master may listen in that folder: ours and root's; or, instead of ours, its owner's, where nobody
    but that owner and root could have put it there."""
    me = os.getuid()
    real = os.path.realpath(folder)
    try:
        owner = os.stat(real).st_uid
        above = real
        while owner not in (me, 0):
            facts = os.stat(above)
            if facts.st_uid not in (owner, 0) or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                break
            if above == "/":
                return (owner, 0)
            above = os.path.dirname(above)
    except OSError:  # not there yet, or not to be looked at
        pass
    return (me, 0) if me else (0,)


def master_socket(url: str) -> str:
    """The socket that --master names."""
    path = url[len("unix://") :] if url.startswith("unix://") else url
    if "://" in path:
        raise MasterError(
            "bad_request",
            f"--master {url}: neither a socket's path nor an address that begins with {' or '.join(ELSEWHERE[:2])}",
            "write it like ssh://[user@]host[:port], or https://host:port",
        )
    return os.path.abspath(path)
