"""ssh's words, as OpenSSH 8 to 10 say them, and the line that is made of them."""

from __future__ import annotations

import pytest

from mgpu.client.head import Head
from mgpu.client.trouble import explain

HEAD = Head("head", "alice", 2222)
CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Offending ED25519 key in /home/alice/.ssh/known_hosts:3
Host key for [10.0.0.1]:2222 has changed and you have requested strict checking.
Host key verification failed.
"""
REFUSED = "ssh: connect to host 10.0.0.1 port 2222: Connection refused\r\n"


@pytest.mark.parametrize(
    ("said", "what", "hint", "lasting"),
    [
        (CHANGED, "head shows another host key than your known_hosts holds", "ssh-keygen -R [10.0.0.1]:2222", True),
        ("Host key verification failed.\r\n", "the host key of head is not known here", "ssh -p 2222 -l alice", True),
        (
            "No ED25519 host key is known for head and you have requested strict checking.\nHost key verification",
            "the host key of head is not known here",
            "fingerprint",
            True,
        ),
        (
            "alice@head: Permission denied (publickey,password).\r\n",
            "head does not let alice in (it takes publickey,password)",
            "ssh-add -l",
            True,
        ),
        (
            "me@bastion: Permission denied (publickey).\r\nConnection closed by UNKNOWN port 65535\r\n",
            "bastion does not let me in (it takes publickey)",
            "ssh://USER@head",
            True,
        ),
        (
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures",
            "too many keys",
            "IdentitiesOnly yes",
            True,
        ),
        (
            "ssh: Could not resolve hostname head: Name or service not known\r\n",
            "no machine called head is known (Name or service not known)",
            "MGPU_MASTER",
            False,
        ),
        (REFUSED, "10.0.0.1 is there, but refuses connections at port 2222", "is sshd running there", False),
        (
            "ssh: connect to host 10.0.0.1 port 22: No route to host",
            "no way leads to 10.0.0.1 from here (No route to host)",
            "VPN",
            False,
        ),
        ("ssh: connect to host 10.0.0.1 port 22: Network is unreachable", "Network is unreachable", "VPN", False),
        ("ssh: connect to host 10.0.0.1 port 22: Connection timed out", "timed out", "--connection-timeout", False),
        (
            "Connection timed out during banner exchange\nConnection to 10.0.0.1 port 22 timed out",
            "timed out",
            "",
            False,
        ),
        ("kex_exchange_identification: Connection closed by remote host", "head hung up before", "too busy", False),
        ("Connection reset by 10.0.0.1 port 22", "head hung up before", "too busy", False),
        (
            (
                "channel 0: open failed: connect failed: Connection refused\nstdio forwarding failed\n"
                "Connection closed by UNKNOWN port 65535"
            ),
            "the jump host does not get through to head",
            "ssh -p 2222",
            False,
        ),
        (
            (
                "/home/alice/.ssh/config: line 3: Bad configuration option: prot\n"
                "/home/alice/.ssh/config: terminating, 1 bad configuration options"
            ),
            "your ssh refuses its own settings",
            "mend",
            True,
        ),
        (
            "Unable to negotiate with 10.0.0.1 port 22: no matching host key type found. Their offer: ssh-rsa",
            "no method in common: Unable to negotiate",
            "",
            True,
        ),
        ("something quite new", "ssh to alice@head failed: something quite new", "try: ssh", False),
        ("", "ssh to alice@head failed: it did not say why", "try: ssh", False),
    ],
)
def test_a_line_with_cause_and_next_step(said: str, what: str, hint: str, lasting: bool) -> None:
    error = explain(HEAD, said, 255)
    assert what in error.message
    assert hint in error.hint
    assert (error.lasting, error.exit_code) == (lasting, 69)
    assert "\n" not in error.message + error.hint
    assert "\r" not in error.message + error.hint


def test_noise_of_start_up_files_is_not_the_cause() -> None:
    assert "refuses connections" in explain(HEAD, "stty: standard input: not a tty\n" + REFUSED, 255).message


def test_an_account_that_runs_no_commands() -> None:
    error = explain(HEAD, "\x1b[31mThis account is currently not available.\x1b[0m\n", 1)
    assert "alice@head let us in, but mgpu did not answer there: This account is currently" in error.message
    assert error.lasting


def test_an_mgpu_that_does_not_know_what_is_asked() -> None:
    assert "too old" in explain(HEAD, "mgpu: mgpu has no command 'dial-stdio': did you mean daemon?\n", 2).message
