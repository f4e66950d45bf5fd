"""Logging in to real sshd hosts, and what becomes of shells when links, servers and accounts misbehave."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu.config.sshconfig import SshTarget
from mgpu.core.launch import Launch
from mgpu.remote.connect import WAKE_S, LoginLimits, connect
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.runner import ProbeWanted, Refusal, ShellRunner
from mgpu.remote.session import NodeSession
from mgpu.remote.shell import NodeShell
from tests.conftest import LabMaker
from tests.lab import Lab, choose_mode
from tests.lab.node import Node
from tests.remote.conftest import wait_until

pytestmark = pytest.mark.lab
LIMITS = LoginLimits(login_s=10.0, dead_peer_s=10.0)
IMPATIENT = LoginLimits(login_s=1.5, dead_peer_s=2.0)


@pytest.mark.parametrize("dead_peer_s", [5.0, 10.0, 60.0, 3600.0])
def test_a_dead_peer_is_noticed_in_time(dead_peer_s: float) -> None:
    limits = LoginLimits(dead_peer_s=dead_peer_s)
    assert limits.sign_of_life_s >= 1 and limits.unheard_s >= 1
    assert limits.sign_of_life_s + WAKE_S + limits.unheard_s <= dead_peer_s


NOWHERE = Path("/nonexistent")
TOKEN = "ab" * 16

needs_namespaces = pytest.mark.skipif(choose_mode() != "namespaces", reason="needs a lab in namespaces")


def target(lab: Lab, node: Node, **more: object) -> SshTarget:
    made = SshTarget(node.address, node.port, node.user, (lab.key,), True, (lab.known_hosts,))
    return replace(made, **more)  # type: ignore[arg-type]


def hello(wanted: SshTarget, limits: LoginLimits = LIMITS) -> str:
    """The hostname that the node says after login."""
    with closing(connect(wanted, "node001", NOWHERE, limits)) as connection:
        shell = NodeShell(connection, limits.login_s)
        shell.close()
        return shell.hostname


def refused(wanted: SshTarget, limits: LoginLimits = LIMITS) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        hello(wanted, limits)
    assert "\n" not in caught.value.message
    return caught.value


@pytest.fixture
def open_session(lab: Lab) -> Iterator[Callable[..., NodeSession]]:
    with ExitStack() as stack:

        def make(wanted: SshTarget, limits: LoginLimits = LIMITS) -> NodeSession:
            session = NodeSession(
                lambda: connect(wanted, "node001", NOWHERE, limits), ("db", "node001", "-"), limits.login_s
            )
            return stack.enter_context(closing(session))

        yield make


# --- who is let in ----------------------------------------------------------------------------------------------------


def test_a_login(lab: Lab) -> None:
    for node in lab.nodes:
        assert hello(target(lab, node)) == node.run("cat /proc/sys/kernel/hostname").stdout.strip()


def test_host_keys(lab: Lab, tmp_path: Path) -> None:
    first, second = lab.nodes
    unknown = refused(target(lab, first, known_hosts=()))
    assert unknown.trouble is Trouble.HOST_KEY_UNKNOWN
    assert unknown.message.endswith("run: mgpu node trust node001")
    lines = lab.known_hosts.read_text().splitlines()
    names = [line.split(" ", 1)[0] for line in lines]
    swapped = tmp_path / "swapped"
    swapped.write_text(lines[1].replace(names[1], names[0]) + "\n")
    assert refused(target(lab, first, known_hosts=(swapped,))).trouble is Trouble.HOST_KEY_CHANGED
    hashed = tmp_path / "hashed"
    hashed.write_text(lab.known_hosts.read_text())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", hashed], check=True, capture_output=True)
    assert names[0] not in hashed.read_text()
    hashed.write_text("@cert-authority * ssh-ed25519 AAAA\n@revoked * nonsense\n\n" + hashed.read_text())
    assert hello(target(lab, first, known_hosts=(hashed,)))
    assert hello(target(lab, second, known_hosts=(NOWHERE, hashed)))
    mine = tmp_path / "revoked"
    mine.write_text(f"@revoked * {lines[0].split(' ', 1)[1]}\n" + lab.known_hosts.read_text())
    assert "revoked" in refused(target(lab, first, known_hosts=(mine,))).message
    assert hello(target(lab, second, known_hosts=(mine,)))


def test_a_port_of_its_own(make_lab: LabMaker) -> None:
    lab = make_lab(mode="loopback", nodes=1)
    assert lab.nodes[0].port != 22
    assert hello(target(lab, lab.nodes[0]))


def test_keys_that_do_not_serve(lab: Lab, tmp_path: Path) -> None:
    node = lab.nodes[0]
    locked, foreign, broken = tmp_path / "locked", tmp_path / "foreign", tmp_path / "broken"
    for path, phrase in ((locked, "secret"), (foreign, "")):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", phrase, "-f", path], check=True)
    broken.write_text("no key\n")
    cases: dict[tuple[Path, ...], str] = {
        (locked,): f"key {locked} is encrypted and no agent holds it: run ssh-add {locked}",
        (foreign,): f"1 key offered, none accepted for {node.user}",
        (broken,): f"key cannot be read: {broken}",
        (NOWHERE,): "no key to offer",
        (): "no key to offer",
    }
    for files, said in cases.items():
        error = refused(target(lab, node, identity_files=files))
        assert (error.trouble, error.transient) == (Trouble.AUTHENTICATION, False)
        assert said in error.message
    assert hello(target(lab, node, identity_files=(broken, locked, foreign, lab.key)))
    nobody = refused(target(lab, node, user="nobody-of-that-name"))
    assert nobody.trouble is Trouble.AUTHENTICATION and "nobody-of-that-name" in nobody.message


def test_an_agent_of_ones_own(lab: Lab, tmp_path: Path) -> None:
    node = lab.nodes[0]
    sock = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.DEVNULL)
    try:
        add, env = ["ssh-add", "-q", lab.key], os.environ | {"SSH_AUTH_SOCK": str(sock)}
        # its socket is there a moment before anybody listens
        wait_until(lambda: subprocess.run(add, env=env, check=False, capture_output=True).returncode == 0)
        by_agent = target(lab, node, identity_files=(), identities_only=False, identity_agent=str(sock))
        assert hello(by_agent)
        assert "no key to offer" in refused(replace(by_agent, identity_agent="none")).message
        assert "no key to offer" in refused(replace(by_agent, identity_agent=str(tmp_path / "gone"))).message
    finally:
        agent.terminate()
        agent.wait()


def test_nobody_there(lab: Lab) -> None:
    wanted = target(lab, lab.nodes[0])
    for changed, said in (
        (replace(wanted, port=1), "refused: is sshd running there?"),
        (replace(wanted, host="no-such-name.invalid"), "unknown host name no-such-name.invalid"),
    ):
        error = refused(changed)
        assert error.transient and said in error.message


@needs_namespaces
def test_silence_is_not_waited_for(lab: Lab) -> None:
    node = lab.nodes[1]
    for fault, mended in ((("link", "drop"), ("link", "ok")), (("sshd", "freeze"), ("sshd", "thaw"))):
        node.fault(*fault)
        try:
            assert refused(target(lab, node), IMPATIENT).transient
        finally:
            node.fault(*mended)
    assert hello(target(lab, node))


def test_jump_hosts(lab: Lab) -> None:
    first, second = (target(lab, node) for node in lab.nodes)
    name = lab.nodes[1].run("cat /proc/sys/kernel/hostname").stdout.strip()
    assert hello(replace(second, hops=(first,))) == name
    assert hello(replace(second, hops=(first, second, first))) == name
    strange = replace(second, hops=(replace(first, known_hosts=()),))
    assert refused(strange).trouble is Trouble.HOST_KEY_UNKNOWN
    port = "" if first.port == 22 else f"-p {first.port} "
    assert refused(strange).message.endswith(f"; run: ssh {port}{first.host}")
    assert refused(replace(replace(second, port=1), hops=(first,))).transient


# --- strange accounts -------------------------------------------------------------------------------------------------


@pytest.fixture
def login_shell(lab: Lab) -> Iterator[Callable[[str, str], SshTarget]]:
    """Gives an account of the first node another login shell; what it was comes back."""
    node = lab.nodes[0]
    before = node.run("cat /etc/passwd", user="root").stdout

    def change(user: str, shell: str) -> SshTarget:
        node.run(f"sed -i 's,^\\({user}:.*:\\)[^:]*$,\\1{shell},' /etc/passwd", user="root")
        return target(lab, node, user=user)

    yield change
    node.run(["sh", "-c", 'printf %s "$1" >/etc/passwd', "sh", before], user="root")


@needs_namespaces
@pytest.mark.parametrize("shell", ["/bin/tcsh", "/usr/bin/fish", "/bin/bash"])
def test_login_shells(
    lab: Lab, login_shell: Callable[[str, str], SshTarget], open_session: Callable[..., NodeSession], shell: str
) -> None:
    """Start-up files that talk, in colours and with words that look like answers."""
    noise = "echo welcome; printf '\\033[33mwarn\\n'; echo '0, Fake GPU, 1'; echo hello end ok >&2"
    node = lab.nodes[0]
    node.run(
        f'mkdir -p .config/fish; for f in .bashrc .cshrc .config/fish/config.fish; do echo "{noise}" >$f; done',
        user="bob",
    )
    session = open_session(login_shell("bob", shell))
    runner = ShellRunner(session)
    try:
        key = f"{len(shell)}.1"
        assert runner.start(key, TOKEN, (), Launch("printf '%s|' \"$HOME\" \"$0\" 'a  b'; exit 3\n")) is None
        wait_until(lambda: "clean" in getattr(runner.look([key]).parts.get(key), "records", {}))
        assert runner.look([key]).parts[key].records["exit"].startswith("3:")
        out = runner.read(key, "stdout", 0)[0].decode()
        assert out.startswith("/home/bob|/home/bob/.mgpu/db/node001/") and out.endswith("|a  b|")
        raw = runner.probe(ProbeWanted(timeout_s=20))
        assert (raw.gpu_status, "welcome" in raw.gpu_text) == (0, False)
    finally:
        runner.close()
        node.run("rm -rf .bashrc .cshrc .config .mgpu", user="bob")


@needs_namespaces
def test_an_account_that_runs_no_commands(lab: Lab, login_shell: Callable[[str, str], SshTarget]) -> None:
    error = refused(login_shell("bob", "/usr/sbin/nologin"))
    assert error.trouble is Trouble.NO_COMMANDS
    assert error.message == "account cannot run commands; it said: This account is currently not available."
    silent = refused(login_shell("bob", "/bin/false"))
    assert silent.message.endswith("it said: (nothing)")


@needs_namespaces
def test_an_account_that_may_run_commands_again_is_noticed(
    login_shell: Callable[[str, str], SshTarget], open_session: Callable[..., NodeSession]
) -> None:
    session = open_session(login_shell("bob", "/usr/sbin/nologin"))
    for _ in range(2):
        with pytest.raises(RemoteError, match="cannot run commands"), session.shell():
            pass
    login_shell("bob", "/bin/sh")
    with session.shell() as shell:
        assert shell.hostname


@needs_namespaces
def test_a_node_that_lacks_a_tool_says_which(lab: Lab) -> None:
    node = lab.nodes[0]
    node.run("mv /usr/bin/flock /usr/bin/flock.away", user="root")
    try:
        error = refused(target(lab, node))
        assert error.trouble is Trouble.NO_COMMANDS
        assert error.message.startswith("the node has no flock in PATH: install ")
    finally:
        node.run("mv /usr/bin/flock.away /usr/bin/flock", user="root")


@needs_namespaces
def test_directories_and_disks_of_an_ordinary_account(lab: Lab, open_session: Callable[..., NodeSession]) -> None:
    node = lab.nodes[0]
    runner = ShellRunner(open_session(target(lab, node)))

    def end_of(key: str) -> str:
        wait_until(lambda: "clean" in getattr(runner.look([key]).parts.get(key), "records", {}), f"end of {key}")
        return runner.look([key]).parts[key].records["exit"].rpartition(":")[0]

    node.run("mkdir -p closed && chmod 000 closed")
    runner.start("61.1", TOKEN, (), Launch("echo\n", directory="/home/train/closed", directory_must_exist=True))
    assert end_of("61.1") == "fail:node:working directory /home/train/closed cannot be entered"
    runner.start("60.1", TOKEN, (), Launch("pwd\n", directory="/home/train/closed"))
    assert end_of("60.1") == "0"
    assert runner.look(["60.1"]).parts["60.1"].records["started"].endswith(":home")
    runner.start("62.1", TOKEN, (), Launch("echo\n", output="/root/out"))
    assert end_of("62.1") == "fail:directory:cannot write /root/out"
    gate = "while [ -e wait ]; do sleep 0.05; done"
    node.run("touch wait")
    runner.start("63.1", TOKEN, (), Launch(f"{gate}; head -c 100000 /dev/zero; exit 9\n"))
    wait_until(lambda: "started" in runner.look(["63.1"]).parts["63.1"].records)
    node.fault("home", "full")
    try:
        for key, launch in (("64.1", Launch("echo\n")), ("65.1", Launch("echo\n" * 10_000, job_file="x" * 50_000))):
            answer = runner.start(key, TOKEN, (), launch)
            assert isinstance(answer, Refusal) and "disk full" in answer.text
            assert runner.look([key]).parts[key].records["pid"] == "fenced"
        node.run("rm wait")
        assert end_of("63.1") == "9"
    finally:
        node.fault("home", "ok")
        node.run("rm -rf closed .mgpu wait")


# --- links that break -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 10])
def test_fifteen_shells_whatever_a_connection_takes(
    make_lab: LabMaker, open_session: Callable[..., NodeSession], most: int
) -> None:
    lab = make_lab(nodes=1, max_sessions=most)
    session = open_session(target(lab, lab.nodes[0]))
    with ExitStack() as stack:
        shells = [stack.enter_context(session.shell()) for _ in range(15)]
        assert {shell.request("state").status for shell in shells} == {"ok"}
        assert session.control("state").status == "ok"
    with ExitStack() as stack:  # again, while those that were closed may still count there
        shells = [stack.enter_context(session.shell()) for _ in range(15)]
        assert {shell.request("state").status for shell in shells} == {"ok"}


def test_many_logins_at_once(make_lab: LabMaker) -> None:
    """sshd drops some at random then (MaxStartups): tried again, and nobody hears of it."""
    lab = make_lab(nodes=1, max_startups="2:60:5")
    wanted = target(lab, lab.nodes[0])
    sessions = [
        NodeSession(lambda: connect(wanted, "node001", NOWHERE, LIMITS), ("db", "node001", "-"), 30.0) for _ in range(8)
    ]
    answers: list[str] = []
    threads = [threading.Thread(target=lambda one=one: answers.append(one.control("state").status)) for one in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for session in sessions:
        session.close()
    assert answers == ["ok"] * 8


def test_a_killed_sshd_under_a_shell(make_lab: LabMaker, open_session: Callable[..., NodeSession]) -> None:
    lab = make_lab(nodes=1)
    node = lab.nodes[0]
    session = open_session(target(lab, node))
    assert session.control("state").status == "ok"
    with session.shell() as shell:
        node.fault("sshd", "kill")
        with pytest.raises(RemoteError) as caught:
            shell.request("state")
        assert caught.value.transient
        with pytest.raises(RemoteError) as caught:
            session.control("state")
        assert caught.value.transient
        node.fault("sshd", "start")
        node.wait_for_sshd()
    with session.shell() as shell:
        assert shell.request("state").status == "ok"
    assert session.control("state").status == "ok"


def test_a_restarted_sshd_leaves_shells_alone(make_lab: LabMaker, open_session: Callable[..., NodeSession]) -> None:
    lab = make_lab(nodes=1)
    session = open_session(target(lab, lab.nodes[0]))
    with session.shell() as shell:
        lab.nodes[0].fault("sshd", "restart")
        assert shell.request("state").status == "ok"


def test_a_frozen_node_is_noticed(make_lab: LabMaker, open_session: Callable[..., NodeSession]) -> None:
    lab = make_lab(nodes=1)
    session = open_session(target(lab, lab.nodes[0]))
    with session.shell() as shell:
        lab.nodes[0].fault("sshd", "freeze")
        try:
            with pytest.raises(RemoteError, match="did not answer in time"):
                shell.request("state", timeout_s=1.0)
            assert shell.broken
        finally:
            lab.nodes[0].fault("sshd", "thaw")
    with session.shell() as shell:
        assert shell.request("state").status == "ok"


@needs_namespaces
def test_nothing_of_ours_stays_when_the_link_is_cut(lab: Lab, open_session: Callable[..., NodeSession]) -> None:
    """Not even the tail of output that nobody writes to any more."""
    node = lab.nodes[0]
    before = {process.pid for process in node.pids()}
    session = open_session(target(lab, node))
    runner = ShellRunner(session)
    runner.start("71.1", TOKEN, (), Launch("echo hello\n"))
    wait_until(lambda: "clean" in getattr(runner.look(["71.1"]).parts.get("71.1"), "records", {}))
    got = bytearray()
    with session.shell() as shell:
        shell.follow("71.1", (0, 0), (got.extend, lambda data: None))
        wait_until(lambda: bytes(got).startswith(b"hello"))
        assert any(process.command.startswith("tail") for process in node.pids())
        session.reset()
    wait_until(lambda: not {process.pid for process in node.pids()} - before, "the end of our shells")
    node.run("rm -rf .mgpu")
