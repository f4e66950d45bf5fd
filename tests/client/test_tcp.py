"""The way to a master over TCP: what is refused before a token is shown, and that all goes over TLS as over a pipe."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mgpu.client import credentials, http, neighbour, tcp
from mgpu.client.address import Address, address_of, parse_address
from mgpu.client.http import Endpoint, MasterError, NoMaster
from mgpu.client.job_stream import Event, JobStream, Output
from mgpu.client.locate import Location, elsewhere
from mgpu.client.master import Master
from mgpu.client.websocket import WebSocket
from tests.client.peer import end, output, state
from tests.client.tcp_peer import TcpPeer, fingerprint_of, made

TOKEN = "mgpu_00000000_" + "5" * 64


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGPU_TOKEN", TOKEN)


def endpoint(url: str) -> Endpoint:
    return elsewhere(url, []).endpoint


def trust(port: int, fingerprint: str) -> str:
    url = f"https://localhost:{port}"
    credentials.keep(credentials.PINS, parse_address(url), fingerprint, os.environ)
    return url


def ask(url: str) -> int:
    place = endpoint(url)
    assert isinstance(place.dialer, tcp.Dialer)
    try:
        return http.request(place, "GET", "/v1/status").status
    finally:
        place.dialer.close()


def refused(url: str) -> MasterError:
    with pytest.raises(MasterError) as caught:
        ask(url)
    return caught.value


def test_a_certificate_that_was_trusted_lets_the_token_be_shown(tmp_path: Path) -> None:
    files = made(tmp_path / "tls")
    with TcpPeer(files) as peer:
        url = trust(peer.port, fingerprint_of(files))
        assert ask(url) == 200
        assert peer.requests[0][2]["authorization"] == f"Bearer {TOKEN}"


def test_a_certificate_that_nobody_trusts_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with TcpPeer(made(tmp_path / "tls")) as peer:
        error = refused(f"https://localhost:{peer.port}")
        assert "is not known here" in error.message
        assert error.hint.endswith(f"mgpu token trust https://localhost:{peer.port}")
        assert (error.exit_code, peer.requests) == (69, [])


def test_another_certificate_is_refused_with_both_fingerprints(tmp_path: Path) -> None:
    """As somebody in between would show it."""
    theirs, ours = made(tmp_path / "theirs"), made(tmp_path / "ours")
    with TcpPeer(theirs) as peer:
        error = refused(trust(peer.port, fingerprint_of(ours)))
        assert fingerprint_of(theirs) in error.message
        assert fingerprint_of(ours) in error.message
        assert isinstance(error, NoMaster)
        assert error.lasting
        assert peer.requests == []


def test_who_has_the_certificate_but_not_its_key_does_not_get_through(tmp_path: Path) -> None:
    """It is shown to everybody, so everybody can show it."""
    ours, theirs = made(tmp_path / "ours"), made(tmp_path / "theirs")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(ssl.SSLError):
        context.load_cert_chain(ours[0], theirs[1])


def test_an_authority_of_the_system_vouches_for_a_name_and_for_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = made(tmp_path / "tls", "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
    with TcpPeer(files) as peer:
        assert ask(f"https://localhost:{peer.port}") == 200
        error = refused(f"https://127.0.0.1:{peer.port}")
        assert "is not known here (IP address mismatch" in error.message


def test_what_was_trusted_counts_more_than_an_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, ours = made(tmp_path / "tls", "localhost"), made(tmp_path / "ours")
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
    with TcpPeer(files) as peer:
        assert "another certificate" in refused(trust(peer.port, fingerprint_of(ours))).message


def test_a_port_without_tls_hears_nothing_of_the_token(tmp_path: Path) -> None:
    heard = bytearray()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            heard.extend(connection.recv(1 << 16))
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    threading.Thread(target=serve, daemon=True).start()
    with listener:
        error = refused(f"https://localhost:{listener.getsockname()[1]}")
    assert "speaks no TLS that we do" in error.message
    assert TOKEN.encode() not in heard


@pytest.mark.parametrize("url", ["http://head:8080", "http://10.0.0.1:8080", "http://127.0.0.1.nip.io:80"])
def test_no_token_goes_beyond_this_machine_without_tls(url: str) -> None:
    with pytest.raises(MasterError, match="a token goes over TLS alone"):
        endpoint(url)


@pytest.mark.parametrize(
    "rest", ["head", "head:0", "head:70000", "u@head:1", "head:1/x", "-h:1", "h h:1", "[127.0.0.1:9]:1"]
)
def test_what_is_no_address(rest: str) -> None:
    with pytest.raises(MasterError, match="no master's address"):
        endpoint(f"https://{rest}")


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("head.lab", "8443", "https://head.lab:8443"),
        ("head.lab", "", "https://head.lab:8080"),
        ("", "9000", "http://127.0.0.1:9000"),
        ("LOCALHOST", "", "http://localhost:8080"),
        ("::1", "80", "http://[::1]:80"),
        ("[2001:db8::1]", "80", "https://[2001:db8::1]:80"),
    ],
)
def test_the_older_words(host: str, port: str, url: str) -> None:
    assert address_of(host, port).url == url


def test_plain_http_on_this_machine_is_for_our_own_master_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with TcpPeer() as peer:
        url = f"http://127.0.0.1:{peer.port}"
        assert ask(url) == 200
        owner = os.getuid()
        monkeypatch.setattr(neighbour, "owners", lambda _: {owner + 4711})
        error = refused(url)
        assert f"it is served by uid {owner + 4711}" in error.message
        assert len(peer.requests) == 1


def test_or_for_the_one_that_serves_all_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may answer at the socket may answer at the port."""
    theirs = os.getuid() + 4711
    monkeypatch.setattr(neighbour, "owners", lambda _: {theirs, 0})
    with TcpPeer() as peer:
        url = f"http://127.0.0.1:{peer.port}"
        for serves, let_in in (((theirs, 0), True), ((theirs + 1, 0), False)):
            dialer = elsewhere(url, [], lambda serves=serves: serves).endpoint.dialer
            assert isinstance(dialer, tcp.Dialer)
            if let_in:
                dialer.connect().close()
                continue
            with pytest.raises(NoMaster, match="is served by uid"):
                dialer.connect()


@pytest.mark.skipif(os.getuid() != 0, reason="to be two users takes root")
@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0", "::"])
def test_the_kernel_says_who_listens(bound: str) -> None:
    program = (
        "import os, socket, sys\nos.setuid(65534)\n"
        f"s = socket.create_server(({bound!r}, 0), family=socket.AF_INET{'6' if ':' in bound else ''}, "
        f"dualstack_ipv6={':' in bound})\nprint(s.getsockname()[1], flush=True)\nsys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as connection:
            assert 65534 in (neighbour.owners(connection) or set())
            assert "it is served by uid 65534" in neighbour.why_not(connection)
        other.communicate()


def test_a_stream_comes_whole_over_tls_and_is_taken_up_again(tmp_path: Path) -> None:
    files = made(tmp_path / "tls")
    data = os.urandom(3 << 20)
    half = len(data) // 2
    with TcpPeer(files) as peer:
        url = trust(peer.port, fingerprint_of(files))
        peer.streams = [
            [state("RUNNING"), output(data[:half])],
            [state("RUNNING"), output(data[half:], offset=half), end("COMPLETED", exit_code=0)],
        ]
        master = Master(Location("", "", endpoint(url), False))
        reading, _writing = os.pipe()
        items = list(JobStream(master, 17).items(reading))
    assert b"".join(item.data for item in items if isinstance(item, Output)) == data
    assert [item.name for item in items if isinstance(item, Event)] == ["state", "lost", "found", "state", "end"]


def test_what_the_other_side_does_not_take_waits_and_comes_whole(tmp_path: Path) -> None:
    """In pieces, while it is read slowly: as what a job is given to read."""
    files = made(tmp_path / "tls")
    received = bytearray()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as connection:
            head = connection.recv(1 << 16)
            assert b"Upgrade: websocket" in head
            connection.sendall(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n")
            time.sleep(0.3)
            while piece := connection.recv(1 << 16):
                received.extend(piece)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    payload = os.urandom(6 << 20)
    with listener:
        stream = WebSocket(endpoint(trust(listener.getsockname()[1], fingerprint_of(files))), "/v1/jobs/1/stream")
        stream.send(2, payload)
        assert stream.unsent
        while stream.unsent:
            stream.flush()
            time.sleep(0.001)
        stream.close()
    thread.join(20)
    assert payload in bytes(received)


def test_a_connection_is_kept_for_what_is_asked_next(tmp_path: Path) -> None:
    files = made(tmp_path / "tls")
    opened = []
    with TcpPeer(files) as peer:
        place = endpoint(trust(peer.port, fingerprint_of(files)))
        assert isinstance(place.dialer, tcp.Dialer)
        real = place.dialer._open
        place.dialer._open = lambda: opened.append(1) or real()  # type: ignore[method-assign, func-returns-value]
        kept = place.dialer.connect()
        place.dialer.keep(kept)
        assert place.dialer.connect() is kept
        kept.close()
        place.dialer.close()
    assert opened == [1]


def test_a_refused_token_is_told_as_the_master_tells_it(tmp_path: Path) -> None:
    files = made(tmp_path / "tls")
    with TcpPeer(files) as peer:
        told = {"code": "no_token", "message": "no token that holds was shown", "hint": "make one"}
        peer.answers["GET", "/v1/jobs"] = (401, {"error": told}, {})
        place = endpoint(trust(peer.port, fingerprint_of(files)))
        with pytest.raises(MasterError, match="no token that holds") as caught:
            Master(Location("", "", place, False)).call("GET", "/v1/jobs")
        assert isinstance(place.dialer, tcp.Dialer)
        place.dialer.close()
        assert (caught.value.code, caught.value.exit_code) == ("no_token", 77)


def test_nobody_is_asked_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MGPU_TOKEN")
    with TcpPeer() as peer:
        error = refused(f"http://127.0.0.1:{peer.port}")
        assert (error.code, error.exit_code, peer.requests) == ("no_token", 77, [])
        assert f"mgpu token save http://127.0.0.1:{peer.port}" in error.hint


def test_a_signal_ends_the_wait_for_a_handshake(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = endpoint(f"https://localhost:{silent.getsockname()[1]}")
        reading, writing = os.pipe()
        os.write(writing, b"x")
        with (
            pytest.raises(NoMaster, match="given up for now"),
            Master(Location("", "", place, False)).woken_by(reading),
        ):
            http.connect(place)


def test_the_wait_for_a_handshake_has_an_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = endpoint(f"https://localhost:{silent.getsockname()[1]}")
        assert place.dialer is not None
        place.dialer.timeout_s = 0.0
        with pytest.raises(NoMaster, match="hung up before it let us in"):
            http.connect(place)


def test_a_master_that_is_just_ending_is_asked_again_soon(tmp_path: Path) -> None:
    """It hangs up in the middle of the handshake: that is nothing that lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            connection.recv(1 << 16)
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()

        threading.Thread(target=serve, daemon=True).start()
        error = refused(f"https://localhost:{listener.getsockname()[1]}")
    assert isinstance(error, NoMaster)
    assert not error.lasting


def test_nobody_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    error = refused(f"https://localhost:{port}")
    assert error.message == f"no master answers at https://localhost:{port} (Connection refused)"


# --- what is kept here ---

HEAD = Address("head", 8443, True)


def test_a_token_from_a_file_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    for mode, used in ((0o644, False), (0o640, False), (0o600, True), (0o400, True)):
        path.chmod(mode)
        if used:
            assert credentials.find_token(HEAD, {"MGPU_TOKEN_FILE": str(path)}) == TOKEN
        else:
            with pytest.raises(MasterError, match="others can read it") as caught:
                credentials.find_token(HEAD, {"MGPU_TOKEN_FILE": str(path)})
            assert TOKEN not in caught.value.told


@pytest.mark.parametrize("text", ["", "two words", "a\r\nHost: x", "\x00"])
def test_what_is_no_token_becomes_no_header(text: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(MasterError, match="that is no token"):
        credentials.find_token(HEAD, {"MGPU_TOKEN_FILE": str(path)})


def test_where_a_token_is_looked_for(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    kept = credentials.keep(credentials.TOKENS, HEAD, "kept", home)
    assert kept == str(tmp_path / "mgpu/tokens/head_8443")
    assert (Path(kept).stat().st_mode & 0o777, Path(kept).parent.stat().st_mode & 0o777) == (0o600, 0o700)
    named = credentials.keep(credentials.TOKENS, HEAD._replace(port=1), "named", home)
    assert credentials.find_token(HEAD, home) == "kept"
    assert credentials.find_token(HEAD, {**home, "MGPU_TOKEN": "given"}) == "given"
    assert credentials.find_token(HEAD, {**home, "MGPU_TOKEN": "given", "MGPU_TOKEN_FILE": named}) == "named"


def test_a_pin_that_others_can_write_counts_for_nothing(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert credentials.find_pin(HEAD, home) == ""
    path = Path(credentials.keep(credentials.PINS, HEAD, f"SHA256:{'a' * 43}", home))
    assert credentials.find_pin(HEAD, home) == f"SHA256:{'a' * 43}"
    path.chmod(0o666)
    with pytest.raises(MasterError, match="others can write it"):
        credentials.find_pin(HEAD, home)
    path.chmod(0o600)
    path.write_text("anything\n")
    with pytest.raises(MasterError, match="holds no fingerprint"):
        credentials.find_pin(HEAD, home)


def test_fingerprints_as_ssh_and_openssl_write_them(tmp_path: Path) -> None:
    files = made(tmp_path / "tls")
    wanted = fingerprint_of(files)
    argv = ["openssl", "x509", "-in", str(files[0]), "-noout", "-fingerprint", "-sha256"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert said.lower().startswith("sha256 fingerprint=")
    for form in (said, said.partition("=")[2], said.partition("=")[2].replace(":", "").lower()):
        assert credentials.parse_fingerprint(form) == wanted
    assert credentials.parse_fingerprint(wanted) == wanted
    with pytest.raises(MasterError, match="is no fingerprint"):
        credentials.parse_fingerprint("SHA256:short")
