"""TLS on the TCP port: the master's own certificate, one of the site's, and what comes without."""

import ssl
import stat
from pathlib import Path

import pytest

from mgpu.api import certificate, line, tcp
from mgpu.api.certificate import Certificate
from mgpu.config.model import Listen
from mgpu.core.errors import StoreError
from mgpu.endpoint import fingerprint
from tests.api.elsewhere import ask, connect, head, is_closed, listens, token, until


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def shown_at(port):
    with connect(port, trusting()) as connection:
        return fingerprint(connection.getpeercert(binary_form=True))


def test_the_master_makes_its_own_certificate_and_says_which(served):
    port = listens(served, tls=True)
    shown = token(served)
    assert ask(port, head(shown), trusting())[0] == 200
    assert ask(port, head(), trusting())[0] == 401
    status = served.ask("GET", "/v1/status")[1]
    assert status["listens"] == f"https://127.0.0.1:{port}"
    assert status["fingerprint"] == shown_at(port)
    assert stat.S_IMODE((served.path.parent / "tls.key").stat().st_mode) == 0o600
    served.restart()
    assert served.ask("GET", "/v1/status")[1]["fingerprint"] == status["fingerprint"] == shown_at(port)


def test_it_is_verified_by_who_has_it_as_a_root(served):
    port = listens(served, tls=True)
    context = ssl.create_default_context(cafile=str(served.path.parent / "tls.crt"))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    assert ask(port, head(token(served)), context)[0] == 200


def test_what_speaks_no_tls_gets_nothing(served):
    port = listens(served, tls=True)
    with connect(port) as connection:
        connection.sendall(head(token(served)))
        assert is_closed(connection)
    assert served.ask("GET", "/v1/jobs")[0] == 200


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_older_tls_is_refused(served):
    port = listens(served, tls=True)
    context = trusting()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(port, context)
    context.maximum_version = context.minimum_version = ssl.TLSVersion.TLSv1_2
    assert ask(port, head(token(served)), context)[0] == 200


def test_who_shakes_hands_too_slowly_is_cut_off(served, monkeypatch):
    monkeypatch.setattr(tcp, "HANDSHAKE_S", 0.3)
    port = listens(served, tls=True)
    with connect(port) as silent:
        assert is_closed(silent)
    assert ask(port, head(token(served)), trusting())[0] == 200


def test_handshakes_count_as_strangers(served, monkeypatch):
    monkeypatch.setattr(line, "WAITING_OF_ONE", 0)
    port = listens(served, tls=True)
    waiting = [connect(port) for _ in range(line.INSIDE_OF_ONE)]
    with connect(port) as late:
        assert is_closed(late)
    for connection in waiting:
        connection.close()
    until("there is room again", lambda: can_come(port))


def test_the_sites_certificate_is_shown_and_taken_anew_when_it_is_renewed(served, tmp_path, monkeypatch):
    monkeypatch.setattr(tcp, "AGAIN_S", 0.2)
    first, second = made(tmp_path / "one"), made(tmp_path / "two")
    port = listens(served, tls=True, certificate=first[0], key=first[1])
    before = shown_at(port)
    assert not (served.path.parent / "tls.key").exists()
    for new, old in zip(second, first, strict=True):
        new.replace(old)
    until("the other is shown", lambda: shown_at(port) != before)
    until("and told", lambda: served.ask("GET", "/v1/status")[1]["fingerprint"] == shown_at(port))


@pytest.mark.parametrize("fault", ["none", "garbage", "another's key", "open key"])
def test_a_certificate_that_cannot_be_used_is_told_and_the_socket_goes_on(served, tmp_path, fault, caplog):
    cert, key = made(tmp_path / "one")
    if fault == "none":
        cert.unlink()
    elif fault == "garbage":
        cert.write_text("no certificate")
    elif fault == "another's key":
        key = made(tmp_path / "two")[1]
    else:
        key.chmod(0o644)
    port = listens(served, tls=True, certificate=cert, key=key)
    told = served.ask("GET", "/v1/status")[1]["listens"]
    assert told.startswith(f"not at https://127.0.0.1:{port}: ")
    assert str(tmp_path) in told
    with pytest.raises(OSError, match="refused"):
        connect(port)


def test_a_key_that_cannot_be_kept_makes_no_certificate(tmp_path):
    with pytest.raises(StoreError, match=r"tls\.key"):
        Certificate(Listen("127.0.0.1", 1), tmp_path / "missing")


def test_names_of_a_certificate_are_names_of_the_master(served, tmp_path):
    cert, key = made(tmp_path / "one", "head.lab.example")
    port = listens(served, tls=True, certificate=cert, key=key)
    shown = token(served)
    assert ask(port, head(shown, Host="head.lab.example:443"), trusting())[0] == 200
    assert ask(port, head(shown, Host="tail.lab.example:443"), trusting())[0] == 403


def made(folder: Path, name: str = "head") -> tuple[Path, Path]:
    folder.mkdir(mode=0o700)
    certificate._make(folder / "c.pem", folder / "k.pem", name)
    return folder / "c.pem", folder / "k.pem"


def can_come(port):
    try:
        return shown_at(port) != ""
    except OSError:
        return False
