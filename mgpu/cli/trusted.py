"""mgpu token trust and save: what a client keeps of a master that it reaches over TCP."""

from __future__ import annotations

import os
import sys

from mgpu.cli.node import asked
from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Option, command
from mgpu.cli.text import say
from mgpu.client.address import Address, parse_address
from mgpu.client.http import MasterError
from mgpu.wording.letters import clean

TRUST_EXAMPLES = """
Examples:
  mgpu token trust https://head:8443                 shows it and asks
  mgpu token trust https://head:8443 --fingerprint SHA256:...
"""
SAVE_EXAMPLES = """
Examples:
  mgpu token save https://head:8443             type or paste it
  mgpu token save https://head:8443 <token
"""


@command(
    Argument("url", "[URL]", "?"),
    Option("--fingerprint", "SHA256:...", "Accept only the certificate with this fingerprint."),
    examples=TRUST_EXAMPLES,
)
def trust(session: Session, /, url: str | None, fingerprint: str | None) -> int:
    """Accept the certificate that a master shows now, after comparing its fingerprint with the one that `mgpu status`
    or `mgpu token fingerprint` shows on the head. From then on no other is accepted there."""
    from mgpu import endpoint
    from mgpu.client import credentials, tcp

    address = _address(session, url)
    wanted = credentials.parse_fingerprint(fingerprint) if fingerprint else ""
    shown = endpoint.fingerprint(tcp.fetch_certificate(address))
    before = credentials.find_pin(address, os.environ)
    if wanted and shown != wanted:
        what = f"{address.url} shows another certificate: {shown}, not {wanted}"
        raise MasterError("not_allowed", what, "do not trust it before you know why")
    if shown == before:
        return _told(session, address, shown, f"{address.url}: its certificate is trusted already")
    if not wanted and not _agreed(address, shown, before):
        _told(session, address, before, f"{address.url}: not trusted")
        return 1
    credentials.keep(credentials.PINS, address, shown, os.environ)
    return _told(session, address, shown, f"{address.url}: trusted is now {shown}")


@command(Argument("url", "[URL]", "?"), has_json=False, examples=SAVE_EXAMPLES)
def save(session: Session, /, url: str | None) -> None:
    """Keep a token, read from stdin, in a file of yours alone: commands to that master show it from then on."""
    from mgpu.client import credentials

    address = _address(session, url)
    if os.isatty(0):
        import getpass

        text = getpass.getpass("Token (it is not shown): ")
    else:
        text = sys.stdin.readline()
    path = credentials.keep(credentials.TOKENS, address, credentials.parse_token(text), os.environ)
    print(f"Saved for {address.url}: {clean(path)}")
    if address.tls and not credentials.find_pin(address, os.environ):
        say(f"unless an authority that this machine knows vouches for its certificate: mgpu token trust {address.url}")


def _address(session: Session, url: str | None) -> Address:
    """Of the master that is named, or that commands go to. Raises MasterError."""
    found = url or session.location().endpoint.socket_path
    if not found.startswith(("https://", "http://")):
        raise bad_request("which master?", "name it: https://head:8443")
    return parse_address(found)


def _agreed(address: Address, shown: str, before: str) -> bool:
    """Asks on the terminal. Raises MasterError without one."""
    if not (os.isatty(0) and os.isatty(2)):
        raise bad_request(
            f"{address.url} shows {shown}, and nobody is there to compare it", "give --fingerprint SHA256:..."
        )
    if before:
        print(f"Trusted here is {before}; another machine may answer in its place.", file=sys.stderr)
    print(f"{address.url} shows the certificate\n  {shown}", file=sys.stderr)
    return asked("Is that what mgpu token fingerprint says on the head?")


def _told(session: Session, address: Address, fingerprint: str, text: str) -> int:
    if session.json:
        session.print_json({"master": address.url, "fingerprint": fingerprint or None})
    else:
        print(text)
    return 0
