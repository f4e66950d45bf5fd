"""The master in a single file, and what goes to an index of packages."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from scripts.packing import master
from tests.end_to_end.cluster import until
from tests.packaging.built import REPOSITORY, Bare, bare_python, network, python_of

pytestmark = pytest.mark.usefixtures("thorough")


@pytest.mark.timeout(900)
def test_the_master_in_one_file(all_files: Path, tmp_path: Path) -> None:
    bare = Bare(tmp_path, all_files)
    assert bare.run("mgpu_master", "--version").stdout.startswith("mgpu ")
    log = bare.home / "log"
    with log.open("wb") as file:
        argv = [bare_python(), "-I", str(all_files / "mgpu_master"), "--port", "0"]
        assert subprocess.run(argv, env=bare.environ, stderr=file, check=False).returncode == 2
        argv[-1] = "18437"
        process = subprocess.Popen(argv, env=bare.environ, cwd=bare.home, stdout=file, stderr=file)
    try:
        until("it serves", lambda: "master of " in log.read_text(), 60)
        done = bare.run("mgpu_client", "submit", "--gpus", 0, "--interactive", "-Q", "echo one; exit 3")
        assert (done.returncode, done.stdout) == (3, "one\n")
        assert "The master was restarted" in bare.run("mgpu_client", "restart").stdout
        assert bare.run("mgpu_srun", "-Q", "--gpus", 0, "--", "echo", "on").stdout == "on\n"
        assert "The master has ended" in bare.run("mgpu_client", "stop").stdout
        assert process.wait(30) == 0
        # it has left word of where it lies: the clients start it again by that
        assert bare.run("mgpu_srun", "-Q", "--gpus", 0, "--", "echo", "again").stdout == "again\n"
        bare.run("mgpu_client", "stop")
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(900)
def test_the_same_tree_makes_the_same_master(all_files: Path, tmp_path: Path) -> None:
    [again] = master.build(tmp_path)
    assert sha256(again.read_bytes()).digest() == sha256((all_files / "mgpu_master").read_bytes()).digest()


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and source distribution, of a copy of what git knows here."""
    folder = tmp_path_factory.mktemp("packages")
    tree = folder / "tree"
    tree.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    copy = ["cpio", "-0", "-pdm", "--quiet", str(tree)]
    if subprocess.run(["sh", "-c", "command -v cpio"], capture_output=True, check=False).returncode:
        copy = ["sh", "-c", f"tar --null -T - -cf - | tar -xf - -C '{tree}'"]
    subprocess.run(copy, cwd=REPOSITORY, input=listed, check=True)
    build = [sys.executable, "-m", "build", "--outdir", str(folder), str(tree)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    return folder


@pytest.mark.timeout(900)
def test_nothing_is_missing_in_them(distributions: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    files = set(listed.splitlines())
    [wheel] = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    assert {path for path in files if path.startswith("mgpu/")} - packed == set()
    assert {path.partition("/")[0] for path in packed if ".dist-info" not in path} == {"mgpu"}
    [source] = distributions.glob("*.tar.gz")
    with tarfile.open(source) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    hidden = {path for path in files if path.startswith((".", "uv.lock"))}
    assert files - hidden - names == set()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["", "3.10", "3.13"])
def test_they_install_clean(distributions: Path, tmp_path: Path, version: str) -> None:
    """From the source distribution, by pip alone, into an environment of its own: of our Python, of the oldest that
    will do, of a newer one."""
    made_by = python_of(version) if version else sys.executable
    if not made_by:
        pytest.skip(f"no Python {version} here")
    subprocess.run([made_by, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", **network()}
    [source] = distributions.glob("*.tar.gz")
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(source)]
    subprocess.run(install, env=environ, check=True, timeout=600)
    subprocess.run([str(python), "-m", "pip", "check"], env=environ, check=True, stdout=subprocess.DEVNULL)

    def run(name: str, *words: str) -> str:
        argv = [str(tmp_path / "venv/bin" / name), *words]
        done = subprocess.run(argv, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    try:
        assert run("mgpu", "srun", "-Q", "-G", "0", "echo", "works") == "works\n"
        assert run("mgpu_queue").startswith("JOBID")
        assert run("mgpu", "db", "check").rstrip().endswith("ok")
        for name in ("mgpu_master", "mgpu_server", "mgpu_node", "mgpu_client", "mgpu_cancel", "mgpu_srun"):
            assert run(name, "--help").startswith("Usage: ")
    finally:
        run("mgpu", "stop")
