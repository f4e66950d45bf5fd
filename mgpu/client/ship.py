"""A working tree made ready to go along with a job: which files, and the tar of them.

In a git repository these are the files that git tracks and those that are new and not ignored, as they are on the disk
now; elsewhere all but what `.mgpuignore` names. The tar depends on names, contents, links and the executable bit alone,
so that the same tree is sent once, wherever and whenever it was checked out.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile

from mgpu.client import git
from mgpu.client.http import MasterError
from mgpu.client.ignore import Ignore
from mgpu.lean.typing import Any, Iterable, Iterator, NamedTuple

IGNORE_FILE = b".mgpuignore"
NEVER = (b".git", b".hg", b".svn")
MOST_FILES = 200_000
DEEPEST = 16  # repositories in repositories
MTIME = 946_684_800  # of every file there, 2000: zip files know no 1970
SHOWN = 5


class Entry(NamedTuple):
    """`kind`: one of tarfile's. `size` of a file, `target` of a link."""

    name: bytes
    kind: bytes
    size: int = 0
    executable: bool = False
    target: bytes = b""


class Shipment(NamedTuple):
    """`place`: where in the tree the job runs, "" = at its top. `commit` "" = it is none of git's."""

    root: bytes
    place: str
    entries: list[Entry]
    notices: list[str]
    git: bool
    commit: str
    dirty: bool

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)

    @property
    def files(self) -> int:
        return sum(entry.kind != tarfile.DIRTYPE for entry in self.entries)


def look(given: str, cwd: str, chdir: str) -> Shipment:
    """`given` "" = the repository around `cwd`, else `cwd`. `chdir`: where the job is to run, seen from `cwd`. Raises
    MasterError."""
    folder = os.path.realpath(os.fsencode(os.path.join(cwd, os.path.expanduser(given))))
    if not os.path.isdir(folder):
        raise _bad(f"{given}: there is no such folder")
    top = git.top_of(folder)
    root = top if top is not None and not given else folder
    if top is None and not given and root == os.path.realpath(os.fsencode(os.path.expanduser("~"))):
        what = f"{os.fsdecode(root)} is your home: all of it would go along, your keys too"
        raise _bad(what, "go into the work tree, or name a folder with --ship=DIR")
    place = _place(root, cwd, chdir)
    notices: list[str] = []
    names = _tracked(root) if top is not None else _all_but_ignored(root)
    entries = _with_folders(_entries(root, names, notices), place)
    if not any(entry.kind != tarfile.DIRTYPE for entry in entries):
        raise _bad(f"{os.fsdecode(root)} holds no file to send", "are all of them ignored?")
    commit = git.commit_of(root) if top is not None else ""
    dirty = top is not None and git.is_dirty(root)
    return Shipment(root, os.fsdecode(place), entries, notices, top is not None, commit, dirty)


def check_size(shipment: Shipment, limit: int) -> None:
    """Raises MasterError that names the largest. `limit` 0 = any."""
    if not limit or shipment.size <= limit:
        return
    first, *others = sorted(shipment.entries, key=lambda entry: -entry.size)[:SHOWN]
    largest = [first, *(entry for entry in others if entry.size > limit // 100)]
    named = ", ".join(f"{os.fsdecode(entry.name)} ({mib(entry.size)})" for entry in largest)
    ignore = ".gitignore" if shipment.git else os.fsdecode(IGNORE_FILE)
    raise _bad(
        f"{mib(shipment.size)} in {shipment.files} files of {os.fsdecode(shipment.root)}, and at most {mib(limit)} may "
        f"go along; the largest: {named}",
        f"name them in {ignore}, ship a part with --ship=DIR, or raise ship.max_size in the configuration",
    )


def mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def pack(shipment: Shipment) -> tuple[Any, str]:
    """A file that has no name, with the tar.gz in it; and the SHA-256 of the tar. Raises MasterError."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 # the caller closes it
    try:
        with gzip.GzipFile("", "wb", 3, file, mtime=0) as packed:
            sink: Any = _Hashed(packed)
            with tarfile.open(
                fileobj=sink,
                mode="w|",
                format=tarfile.GNU_FORMAT,
                encoding="utf-8",
                errors="surrogateescape",
            ) as tar:
                for entry in shipment.entries:
                    _add(tar, shipment.root, entry)
        file.seek(0)
    except OSError as error:
        file.close()
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        raise _bad(f"{where}{error.strerror or error}", "was it changed just now? try again") from error
    return file, str(sink.hash.hexdigest())


class _Hashed:
    """Passes on what is written, and hashes it."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        return int(self._file.write(data))


def _add(tar: tarfile.TarFile, root: bytes, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.name.decode("utf-8", "surrogateescape"))
    info.type, info.mtime = entry.kind, MTIME
    info.linkname = entry.target.decode("utf-8", "surrogateescape")
    info.mode = 0o755 if entry.executable or entry.kind == tarfile.DIRTYPE else 0o644
    if entry.kind != tarfile.REGTYPE:
        tar.addfile(info)
        return
    descriptor = os.open(os.path.join(root, entry.name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        info.size = os.fstat(descriptor).st_size
        tar.addfile(info, file)


# --- which files ----------------------------------------------------------------------------------------------------


def _place(root: bytes, cwd: str, chdir: str) -> bytes:
    """Where in the tree the job runs: the folder that `chdir` or else `cwd` is there."""
    wanted = os.path.realpath(os.fsencode(os.path.join(cwd, os.path.expanduser(chdir))))
    place = os.path.relpath(wanted, root)
    if place == b"." or (not chdir and _outside(place)):
        return b""
    if _outside(place) or not os.path.isdir(wanted):
        raise _bad(f"-D {chdir}: no folder of the tree {os.fsdecode(root)}, in which the job runs")
    return place


def _outside(path: bytes) -> bool:
    return path == b".." or path.startswith((b"../", b"/"))


def _tracked(root: bytes, below: bytes = b"", depth: int = 0) -> Iterator[bytes]:
    """Submodules and other repositories in it are part of the tree, each by its own rules."""
    for listed in dict.fromkeys(git.listed(os.path.join(root, below) if below else root)):
        name = os.path.join(below, listed.rstrip(b"/"))
        path = os.path.join(root, name)
        if not os.path.isdir(path) or os.path.islink(path):
            yield name
        elif os.path.lexists(os.path.join(path, b".git")) and depth < DEEPEST:
            yield from _tracked(root, name, depth + 1)


def _all_but_ignored(root: bytes) -> Iterator[bytes]:
    """Folders too: an empty one may be wanted."""
    try:
        with open(os.path.join(root, IGNORE_FILE), "rb") as file:
            ignore = Ignore(os.fsdecode(file.read()))
    except FileNotFoundError:
        ignore = Ignore("")
    waiting = [b""]
    while waiting:
        below = waiting.pop()
        try:
            found = list(os.scandir(os.path.join(root, below) if below else root))
        except OSError as error:
            raise _bad(
                f"{os.fsdecode(error.filename)}: {error.strerror}", f"name it in {IGNORE_FILE.decode()}"
            ) from error
        for item in found:
            name = os.path.join(below, item.name)
            is_folder = item.is_dir(follow_symlinks=False)
            if (is_folder and item.name in NEVER) or ignore.names(os.fsdecode(name), is_folder):
                continue
            yield name
            if is_folder:
                waiting.append(name)


def _entries(root: bytes, names: Iterable[bytes], notices: list[str]) -> Iterator[Entry]:
    """Of what is there, and can go along; what cannot is said."""
    real = _Folders(root)
    for count, name in enumerate(names):
        if count >= MOST_FILES:
            raise _bad(f"{os.fsdecode(root)} holds more than {MOST_FILES} files", "ship a part with --ship=DIR")
        path = os.path.join(root, name)
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # deleted, and git has not heard of it yet
        if not real.holds(os.path.dirname(name)):
            continue  # what was a folder once is a link now, which goes along by itself
        if stat.S_ISREG(found.st_mode):
            yield Entry(name, tarfile.REGTYPE, found.st_size, bool(found.st_mode & 0o100))
        elif stat.S_ISDIR(found.st_mode):
            yield Entry(name, tarfile.DIRTYPE)
        elif stat.S_ISLNK(found.st_mode) and (target := _target(root, name)):
            yield Entry(name, tarfile.SYMTYPE, target=target)
        elif stat.S_ISLNK(found.st_mode):
            notices.append(
                f"not shipped: {os.fsdecode(name)} leads out of the tree, to {os.fsdecode(os.readlink(path))}"
            )
        else:
            notices.append(f"not shipped: {os.fsdecode(name)} is no file")


class _Folders:
    """Which folders of the tree are such, and no links."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._known = {b"": True}

    def holds(self, folder: bytes) -> bool:
        if folder not in self._known:
            path = os.path.join(self._root, folder)
            self._known[folder] = self.holds(os.path.dirname(folder)) and not os.path.islink(path)
        return self._known[folder]


def _target(root: bytes, name: bytes) -> bytes:
    """Of a link that stays in the tree; b"" = it does not."""
    target = os.readlink(os.path.join(root, name))
    plain = os.path.normpath(os.path.join(os.path.dirname(name), target))
    real = os.path.relpath(os.path.realpath(os.path.join(root, name)), root)
    if target.startswith(b"/") or _outside(plain) or _outside(real) or os.path.islink(os.path.join(root, real)):
        return b""  # the last: in a circle
    return target


def _with_folders(entries: Iterable[Entry], place: bytes) -> list[Entry]:
    """In the order in which they can be unpacked, each below a folder that is there."""
    found = {entry.name: entry for entry in entries}
    for name in (*found, place and os.path.join(place, b".")):
        while name := os.path.dirname(name):
            if name in found:
                break
            found[name] = Entry(name, tarfile.DIRTYPE)
    return [found[name] for name in sorted(found)]


def _bad(message: str, hint: str = "") -> MasterError:
    return MasterError("bad_request", f"--ship: {message}", hint)
