"""scripts/install in an environment that holds nothing but what a bare head node has: a shell, a few tools, and the
Python that the test puts there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
TOOLS = (
    *("sh", "dirname", "mkdir", "id", "sed", "mktemp", "cp", "rm", "rmdir", "ln", "ls", "readlink", "uname", "cat"),
    *("chmod", "touch"),
)
# A Python of that version; what it makes are environments whose pip installs an mgpu that says so.
PYTHON = """#!/bin/sh
echo "${0##*/} $*" >>"$HOME/calls"
case $* in
--version) echo "Python VERSION" ;;
*"version_info < (3, 10)"*) exit OLD ;;
*ensurepip*) exit BARE ;;
"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && touch "$3/pyvenv.cfg" ;;
"-m pip "*)
    cd "${0%/*}" && printf '#!/bin/sh\\necho mgpu 7.7\\n' >mgpu && chmod +x mgpu && cp mgpu mgpu_srun ;;
esac
"""
UV = """#!/bin/sh
echo "uv $*" >>"$HOME/calls"
for folder; do :; done
python3.12 -m venv "$folder"
"""


class Head:
    """A machine with those tools alone."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "head"
        self.bin = folder / "tools"
        self.home.mkdir()
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
        self.prefix = self.home / ".local/share/mgpu"
        self.environ: dict[str, str] = {}

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def python(self, name: str, version: str, bare: bool = False) -> None:
        old = tuple(map(int, version.split(".")[:2])) < (3, 10)
        text = PYTHON.replace("VERSION", version).replace("OLD", str(int(old))).replace("BARE", str(int(bare)))
        self.program(name, text)

    def install(self, *words: str, script: Path = REPOSITORY / "scripts/install") -> subprocess.CompletedProcess[str]:
        environ = {"HOME": str(self.home), "PATH": str(self.bin), **self.environ}
        bin_option = [] if any(word.startswith("--bin") for word in words) else ["--bin", f"{self.home}/.local/bin"]
        argv = [str(script), *bin_option, *words]
        return subprocess.run(argv, env=environ, cwd=self.home, capture_output=True, text=True, check=False)

    @property
    def calls(self) -> list[str]:
        return (self.home / "calls").read_text().splitlines()


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path)


def test_the_newest_python_by_name_is_taken(head: Head) -> None:
    head.python("python3", "3.6.8")
    head.python("python3.11", "3.11.2")
    head.python("python3.12", "3.12.1")
    done = head.install()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"Python: {head.bin}/python3.12",
        f"mgpu 7.7 is installed in {head.prefix}",
        f'put it into your PATH: export PATH="{head.home}/.local/bin:$PATH"',
    ]
    for name in ("mgpu", "mgpu_srun"):
        assert (head.home / ".local/bin" / name).readlink() == head.prefix / "bin" / name
    assert not any("python3 " in call for call in head.calls)
    assert any(call.startswith("python -m compileall") for call in head.calls)


def test_again_it_upgrades_in_place(head: Head) -> None:
    head.python("python3.12", "3.12.1")
    assert head.install().returncode == 0
    (head.home / "calls").unlink()
    head.environ["PATH"] = f"{head.home}/.local/bin:{head.bin}"
    done = head.install()
    assert done.stdout.splitlines() == [
        f"mgpu 7.7 is installed in {head.prefix}",
        "a master that runs takes it up with: mgpu restart",
        f"its commands are linked in {head.home}/.local/bin; try: mgpu nodes; for Tab and man: mgpu completion install",
    ]
    assert not any("-m venv" in call for call in head.calls)


def test_an_environment_whose_python_is_gone_is_made_anew(head: Head) -> None:
    head.python("python3.12", "3.12.1")
    assert head.install().returncode == 0
    (head.prefix / "bin/python").write_text("#!/nonexistent\n")
    done = head.install()
    assert done.returncode == 0
    assert done.stdout.startswith("Python: ")


def test_where_none_is_new_enough_it_says_what_to_fetch(head: Head) -> None:
    head.python("python3", "3.6.8")
    done = head.install()
    assert (done.returncode, done.stdout) == (1, "")
    first, *ways = done.stderr.splitlines()
    assert first.startswith("scripts/install: there is no Python 3.10 or newer here (python3 is 3.6.8).")
    assert ["uv" in ways[1], "micromamba" in ways[2], "--python" in ways[3]] == [True] * 3
    assert not head.prefix.exists()


def test_without_any_python(head: Head) -> None:
    assert head.install().stderr.startswith("scripts/install: there is no Python 3.10 or newer here. One of these")


def test_a_python_that_can_make_no_environments(head: Head) -> None:
    """As Debian's without python3-venv; uv does it with that Python."""
    head.python("python3.12", "3.12.1", bare=True)
    assert f"{head.bin}/python3.12 cannot make environments" in head.install().stderr
    head.program("uv", UV)
    assert head.install().returncode == 0
    assert f"uv venv --quiet --seed --python {head.bin}/python3.12 {head.prefix}" in head.calls


def test_uv_and_micromamba_bring_a_python(head: Head) -> None:
    stand_in = PYTHON.replace("VERSION", "3.12.1").replace("OLD", "0").replace("BARE", "0")
    (head.bin / "hidden").write_text(stand_in)
    (head.bin / "hidden").chmod(0o755)
    micromamba = f"""#!/bin/sh
echo "micromamba $*" >>"$HOME/calls"
mkdir -p "$5/bin" && cp {head.bin}/hidden "$5/bin/python"
"""
    head.program("micromamba", micromamba)
    done = head.install()
    assert (done.returncode, done.stderr) == (0, "")
    assert f"micromamba create --yes --quiet --prefix {head.prefix}/python" in head.calls[0]
    assert "--channel conda-forge python=3.12" in head.calls[0]
    shutil.rmtree(head.prefix)
    (head.home / "calls").unlink()
    head.program("uv", UV.replace("python3.12", f"{head.bin}/hidden"))
    assert head.install().returncode == 0
    assert head.calls[0] == f"uv venv --quiet --seed --python 3.12 {head.prefix}"


def test_a_python_that_was_named_is_the_only_one(head: Head) -> None:
    head.python("python3.12", "3.12.1")
    head.python("mine", "3.8.1")
    done = head.install("--python", "mine")
    assert done.returncode == 1
    assert "mine is no Python 3.10 or newer" in done.stderr
    assert "mine is 3.8.1" in done.stderr


def test_what_belongs_to_others_is_left_alone(head: Head) -> None:
    head.python("python3.12", "3.12.1")
    head.prefix.mkdir(parents=True)
    (head.prefix / "thesis").write_text("x")
    assert "left alone" in head.install().stderr
    assert (head.prefix / "thesis").read_text() == "x"
    place = head.home / "a b"
    link = head.home / ".local/bin/mgpu"
    link.parent.mkdir()
    link.write_text("mine")
    done = head.install(f"--prefix={place}")
    assert done.returncode == 0
    assert f"{link} is something else, and is left alone; this mgpu is {place}/bin/mgpu" in done.stdout
    assert (link.read_text(), [entry.name for entry in link.parent.iterdir()]) == ("mine", ["mgpu"])


@pytest.mark.parametrize("words", [["--prefix"], ["--prefix="], ["--fast"], ["mgpu"]])
def test_what_it_does_not_understand(head: Head, words: list[str]) -> None:
    assert head.install(*words).returncode == 1
    assert not (head.home / ".local").exists()


def test_its_help(head: Head) -> None:
    done = head.install("--help")
    assert done.stdout.startswith("Installs mgpu from this directory")
    assert "--prefix DIR" in done.stdout


@pytest.mark.timeout(600)
def test_in_earnest(head: Head, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """With pip and its index, from a tree that cannot be written, and once more after a change in that."""
    if not pytestconfig.getoption("thorough"):
        pytest.skip("a minute of pip: only with --thorough")
    tree = tmp_path / "tree"
    (tree / "scripts").mkdir(parents=True)
    for name in ("mgpu", "pyproject.toml", "README.md", "LICENSE", "scripts/install"):
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tree / name)
    real = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    (head.bin / f"python3.{sys.version_info.minor}").symlink_to(real)
    head.python("python3", "3.6.8")
    kept = ("PIP_", "SSL_", "REQUESTS_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy")
    head.environ = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    done = head.install("--prefix", f"{head.home}/in here", script=tree / "scripts/install")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tree / "build").exists()
    mgpu = head.home / ".local/bin/mgpu"
    environ = {"HOME": str(head.home), "PATH": f"{mgpu.parent}:/usr/bin:/bin"}

    def run(*words: str) -> str:
        ran = subprocess.run(
            [str(mgpu), *words], env=environ, cwd=head.home, capture_output=True, text=True, check=False
        )
        return ran.stdout + ran.stderr

    try:
        assert run("srun", "-Q", "-G", "0", "echo", "works") == "works\n"
        init = tree / "mgpu/__init__.py"
        init.write_text(init.read_text().replace('__version__ = "', '__version__ = "77.'))
        assert head.install("--prefix", f"{head.home}/in here", script=tree / "scripts/install").returncode == 0
        assert run("--version").startswith("mgpu 77.")
        assert run("restart").startswith("The master was restarted: mgpu 77.")
    finally:
        run("stop")
