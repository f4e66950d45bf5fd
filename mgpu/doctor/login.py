"""Into the account: the host key, the keys that we have, the login, and how much one connection takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mgpu.config.sshconfig import SshTarget
from mgpu.core.finding import Finding, failure, ok, skipped, warning
from mgpu.doctor.case import Case
from mgpu.remote.channel import SshConnection
from mgpu.remote.connect import OfferedKeys, keys_to_offer
from mgpu.remote.connections import MAX_SHELLS
from mgpu.remote.errors import RemoteError, Trouble

SLOW_LOGIN_S = 5.0
SESSIONS = 10  # sshd's own default


def host_key(case: Case) -> Iterator[Finding]:
    case.log_in()
    refusal = case.refusal
    trouble = refusal.trouble if refusal else None
    said, _, remedy = refusal.message.partition("; ") if refusal else ("", "", "")
    if trouble is Trouble.HOST_KEY_UNKNOWN:
        asks = remedy.removeprefix("run: ")
        # a jump host is none of our nodes: ssh has to know it
        yield failure("host key", said, f"{asks}{', once,' if asks.startswith('ssh ') else ''} shows it and asks")
    elif trouble is Trouble.HOST_KEY_CHANGED and "revoked" in said:
        yield failure("host key", said, "a line @revoked of known_hosts says so: the node needs a new key")
    elif trouble is Trouble.HOST_KEY_CHANGED:
        yield failure("host key", said, f"the machine was set up anew, or another answers for it; {remedy}")
    elif trouble is Trouble.AUTHENTICATION:
        yield ok("host key", "it is the one on file")
    elif refusal:
        yield skipped("host key", "the login did not come so far")
    else:
        assert isinstance(case.connection, SshConnection)
        shown = ", ".join(login.host_key for login in case.connection.logins)
        yield ok("host key", f"{shown} is on file")


def keys(case: Case) -> Iterator[Finding]:
    for hop in case.chain:
        offered = keys_to_offer(hop)
        case.offered.append(offered)
        where = f" (jump host {hop.host})" if hop is not case.target else ""
        yield _keys(offered, hop, where, bool(case.connection))


def _keys(offered: OfferedKeys, hop: SshTarget, where: str, let_in: bool) -> Finding:
    text = f"{', '.join(offered.keys.values()) or 'none'}; {offered.agent}"
    if offered.encrypted:
        text += f"; {', '.join(offered.encrypted)} is encrypted and no agent holds it"
    if offered.unreadable:
        text += f"; cannot be read: {', '.join(offered.unreadable)}"
    if offered.keys or let_in:
        return ok("keys", text + where)
    if offered.encrypted:
        hint = f"eval $(ssh-agent); ssh-add {offered.encrypted[0]} where the master starts: it never asks"
        return failure("keys", text + where, hint)
    looked = ", ".join(map(str, hop.identity_files)) or "no file is configured"
    hint = f"looked for: {looked}; name one with ssh: {{identity_file: ...}}, or mgpu init --key makes and installs one"
    return failure("keys", text + where, hint)


def login(case: Case) -> Iterator[Finding]:
    refusal = case.refusal
    if refusal is not None:
        yield failure("login", refusal.message, _login_hint(case, refusal))
        return
    assert isinstance(case.connection, SshConnection)
    assert case.target is not None
    origin = case.offered[-1].keys.get(case.connection.logins[-1].key, "a key")
    text = f"{case.target.user} is let in with {origin}, in {case.login_s:.1f} s"
    if case.login_s > SLOW_LOGIN_S:
        yield warning(
            "login", text, "in sshd_config there: UseDNS no; else look at what PAM does (systemctl, NFS, LDAP)"
        )
    else:
        yield ok("login", text)


def _login_hint(case: Case, refusal: RemoteError) -> str:
    assert case.target is not None
    if "too many authentication failures" in refusal.message:
        return "too many keys for its MaxAuthTries: name the one with ssh: {identity_file: ...}, and IdentitiesOnly yes"
    if refusal.trouble is Trouble.AUTHENTICATION:
        user = case.target.user
        return (
            f"is {user} the account there? its ~/.ssh/authorized_keys has to hold one of these keys (ssh-copy-id, mgpu "
            "init --key), and nobody else may write it, ~/.ssh or the home"
        )
    if "jump host" in refusal.message:
        return "the jump host does not reach the node: name, firewall, or AllowTcpForwarding in its sshd_config"
    if "timed out" in refusal.message:
        return (
            "the login hangs: look at PAM, home and name servers of the node; a slow one needs a longer login_timeout"
        )
    return f"ssh -v {case.node.ssh.name or case.node.ssh.host} tells more; so does sshd's log there"


def sessions(case: Case) -> Iterator[Finding]:
    assert isinstance(case.connection, SshConnection)
    try:
        number = case.connection.count_sessions(SESSIONS)
    except RemoteError as error:
        yield failure("sessions", error.message, "the connection broke while sessions were opened: look at sshd's log")
        return
    if number >= MAX_SHELLS:
        yield ok("sessions", f"one connection takes {'at least ' * (number == SESSIONS)}{number}")
    elif number:
        text = f"one connection takes {number} at once: further logins are made where more are needed"
        yield warning("sessions", text, f"MaxSessions {SESSIONS} in sshd_config there is the default, and saves them")
    else:
        yield failure("sessions", "sshd lets us in but opens no session", "MaxSessions 0 in sshd_config forbids them")


def masters_agent(case: Case) -> Finding | None:
    """What works by hand and fails from a service: a key that our agent has and the master's has not."""
    master = case.master
    if case.local or master is None or master.agent is None or not isinstance(case.connection, SshConnection):
        return None
    for hop, here, done in zip(case.chain, case.offered, case.connection.logins, strict=True):
        if hop.identity_agent:
            continue  # ssh_config names the agent, whoever asks
        there = keys_to_offer(replace(hop, identity_agent=master.agent or "none"))
        if done.key not in there.keys:
            has = "the master has no agent" if not master.agent else f"of the master's, {master.agent}, that is not so"
            return failure(
                "master",
                f"{here.keys.get(done.key, 'the key')} opened {hop.host} by your ssh-agent, and {has}",
                "works by hand, fails from the master: mgpu stop, then any command in this shell starts it with your "
                "agent; for a service, a key without a passphrase (mgpu init --key)",
            )
    return None
