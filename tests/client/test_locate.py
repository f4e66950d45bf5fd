from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgpu.client import locate
from mgpu.client.http import MasterError
from mgpu.file_system import file_system_of

REPOSITORY = Path(__file__).parents[2]
NONE: dict[str, str] = {}


def find(
    config: str | None = None,
    state_dir: str | None = None,
    master: str | None = None,
    environ: dict[str, str] | None = None,
    configured: str = "",
) -> locate.Location:
    variables = {**os.environ, **(environ or {})}
    return locate.locate(config, state_dir, master, variables, lambda _file: configured, "/nowhere/config.yaml")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir(mode=0o755)
    monkeypatch.chdir(folder)
    return folder


def write(path: Path, text: str = "nodes: []\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)
    path.parent.chmod(0o755)
    return str(path)


def test_nothing_configured_means_this_machine(here: Path, clean_home: Path) -> None:
    place = find()
    assert place.config == "" and place.endpoint.config == ""
    assert place.state_dir == str(clean_home / ".local/state/mgpu")
    assert place.endpoint.socket_path == locate.socket_path(place.state_dir)
    assert place.personal and place.warnings == ()


def test_flag_then_variable_then_here_then_home(here: Path, clean_home: Path) -> None:
    flag, variable = write(here / "flag.yaml"), write(here / "variable.yaml")
    home = write(clean_home / ".config/mgpu/cluster_config.yaml")
    assert find().config == home
    local = write(here / "cluster_config.yaml")
    assert find().config == local
    shipped = (REPOSITORY / "cluster_config.yaml").read_text()
    for text, config in ((shipped, home), ("\n  # x\n", home), (f"{shipped}\n  nodes: []\n", local), ("---\n", local)):
        (here / "cluster_config.yaml").write_text(text)
        assert find().config == config
    assert find(environ={"MGPU_CONFIG": variable}).config == variable
    assert find(config="flag.yaml", environ={"MGPU_CONFIG": variable}).config == flag


@pytest.mark.parametrize(
    ("name", "mode"), [("cluster_config.yaml", 0o664), ("cluster_config.yaml", 0o646), ("", 0o777)]
)
def test_what_others_could_have_written_is_passed_over(here: Path, name: str, mode: int) -> None:
    write(here / "cluster_config.yaml")
    (here / name).chmod(mode)
    place = find()
    assert place.config == ""
    (warning,) = place.warnings
    assert "cluster_config.yaml is passed over: others can write" in warning
    assert find(config="cluster_config.yaml").config  # named on purpose: the master judges it


def test_a_link_is_judged_by_where_it_leads(here: Path, tmp_path: Path) -> None:
    shared = write(tmp_path / "shared" / "c.yaml")
    (here / "cluster_config.yaml").symlink_to(shared)
    assert find().config == str(here / "cluster_config.yaml")
    (tmp_path / "shared").chmod(0o777)
    assert find().config == ""


def test_a_configuration_that_is_not_there(here: Path) -> None:
    with pytest.raises(MasterError, match=r"no configuration at gone\.yaml") as caught:
        find(config="gone.yaml")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("place", ["here", "home"])
def test_what_is_no_file_is_not_called_absent(here: Path, clean_home: Path, place: str) -> None:
    path = (here if place == "here" else clean_home / ".config/mgpu") / "cluster_config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    for make, said in (
        (path.mkdir, "is a folder"),
        (lambda: os.mkfifo(path, 0o600), "is no file"),
        (lambda: path.symlink_to("gone"), "is a link to what is not there"),
    ):
        make()
        for named in (None, str(path)):
            with pytest.raises(MasterError, match=said) as caught:
                find(config=named)
            assert (caught.value.code, caught.value.exit_code) == ("bad_config", 2)
        path.rmdir() if path.is_dir() else path.unlink()


def test_what_another_one_could_have_put_in_place_of_the_file_is_passed_over(here: Path) -> None:
    (here / "cluster_config.yaml").symlink_to("gone")
    here.chmod(0o777)
    assert find().config == ""
    assert "others can write" in find().warnings[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another account")
@pytest.mark.parametrize("closed", ["folder", "file"])
def test_a_configuration_that_one_may_not_read_is_not_said_to_be_absent(tmp_path: Path, closed: str) -> None:
    config = write(tmp_path / "closed" / "c.yaml")
    tmp_path.chmod(0o755)
    Path(config).chmod(0o600 if closed == "file" else 0o644)
    Path(config).parent.chmod(0o700 if closed == "folder" else 0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(MasterError, match="Permission denied") as caught:
            find(config=config)
    finally:
        os.seteuid(0)
    assert (caught.value.code, caught.value.exit_code) == ("not_allowed", 77)


def test_state_dir_flag_variable_configuration(here: Path) -> None:
    config = write(here / "c.yaml", "base: &base rel\nmaster: {state_dir: *base}\n")
    assert find(config, configured="rel").state_dir == str(here / "rel")
    assert find(config, configured="/abs").state_dir == "/abs"
    assert find(config, environ={"MGPU_STATE_DIR": "var"}, configured="/abs").state_dir == str(here / "var")
    assert find(config, "flag", environ={"MGPU_STATE_DIR": "var"}).state_dir == str(here / "flag")


def test_a_glance_is_for_a_file_that_nobody_else_could_have_written(here: Path) -> None:
    config = write(here / "c.yaml", "master: {state_dir: rel}\n")
    assert find(config, configured="/loaded").state_dir == str(here / "rel")
    Path(config).chmod(0o666)
    assert find(config, configured="/loaded").state_dir == "/loaded"


def test_a_configuration_without_the_word_is_not_loaded(here: Path) -> None:
    def fail(_file: str) -> str:
        raise AssertionError("loaded")

    config = write(here / "c.yaml")
    place = locate.locate(config, None, None, dict(os.environ), fail)
    assert place.state_dir.endswith("/mgpu")


def test_long_paths_get_a_short_socket_in_a_folder_of_ours(tmp_path: Path) -> None:
    assert locate.socket_path("/var/x") == "/var/x/mgpu.sock"
    long = tmp_path / ("d" * 120)
    first, again = locate.socket_path(str(long)), locate.socket_path(long)
    assert first == again != locate.socket_path(str(long) + "e")
    assert Path(first).parent == Path(f"/tmp/mgpu-{os.getuid()}")
    assert Path(first).parent.stat().st_mode & 0o777 == 0o700
    assert len(first) <= locate.SOCKET_PATH_LIMIT_B


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    made = locate.private_folder(str(tmp_path / "mine"))
    assert Path(made).stat().st_mode & 0o777 == 0o700
    Path(made).chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (made, str(tmp_path / "link")):
        with pytest.raises(MasterError, match="alone can enter"):
            locate.private_folder(path)


def test_a_master_by_its_socket_is_never_started(here: Path) -> None:
    place = find(master="unix:///run/m.sock")
    assert (place.endpoint.socket_path, place.personal) == ("/run/m.sock", False)
    assert place.endpoint.config is None
    config = write(here / "c.yaml")
    assert find(config, environ={"MGPU_MASTER": "m.sock"}).endpoint[:2] == (str(here / "m.sock"), config)
    with pytest.raises(MasterError, match="neither a socket's path nor an address that begins with ssh://"):
        find(master="ftp://head")


def test_of_a_master_elsewhere_nothing_that_lies_here_decides(here: Path) -> None:
    place = find("no-such-file.yaml", environ={"MGPU_MASTER": "ssh://user@head:2222"})
    assert (place.config, place.state_dir, place.personal) == ("", "", False)
    assert (place.endpoint.socket_path, place.endpoint.config) == ("ssh://user@head:2222", None)
    assert place.endpoint.dialer is not None
    assert place.warnings == ("--config means nothing to a master on another machine, which has its own",)
    assert find(environ={"MGPU_MASTER": "ssh://head", "MGPU_CONFIG": "no-such-file.yaml"}).warnings == ()
    assert find(master="m.sock", environ={"MGPU_MASTER": "ssh://head"}).endpoint.dialer is None


def test_file_system_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/a rw\n"
        "2 1 0:9 / /home rw shared:1 - nfs4 srv:/home rw\n"
        "3 1 0:9 / /home/bob\\040b rw - tmpfs tmpfs rw\n"
    )
    kinds = {path: file_system_of(path, str(mounts)) for path in ("/home/al/x", "/homely", "/home/bob b/x", "/var")}
    assert kinds == {"/home/al/x": "nfs4", "/homely": "ext4", "/home/bob b/x": "tmpfs", "/var": "ext4"}
