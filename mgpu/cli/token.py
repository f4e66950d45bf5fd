"""mgpu token: what clients elsewhere show instead of a login."""

from __future__ import annotations

from mgpu.cli.session import Session
from mgpu.cli.syntax import Argument, Group, Option, command
from mgpu.cli.text import say, table
from mgpu.client.http import MasterError, quote
from mgpu.wording.figures import local_time

CREATE_EXAMPLES = """
Examples:
  mgpu token create --name laptop                      shown once, here
  (umask 077; mgpu token create >token)                into a file
  mgpu --master ssh://head token create | mgpu token save https://head:8443
  mgpu token create --user carol --expires 30d         for another, by admins
"""
LIST_EXAMPLES = """
Example:
  mgpu token list
"""
REVOKE_EXAMPLES = """
Example:
  mgpu token revoke 3f9a01c7
"""
COMMANDS = {
    "create": ("mgpu.cli.token:create", "Make a token."),
    "list": ("mgpu.cli.token:list_tokens", "Tokens, and when they were used."),
    "revoke": ("mgpu.cli.token:revoke", "End a token, and what goes on with it."),
    "fingerprint": ("mgpu.cli.token:fingerprint", "Of the certificate that the master shows."),
    "trust": ("mgpu.cli.trusted:trust", "Accept a master's certificate, on the client."),
    "save": ("mgpu.cli.trusted:save", "Keep a token for a master, on the client."),
}
HEADERS = ("ID", "USER", "NAME", "STATE", "CREATED", "EXPIRES", "USED")

FINGERPRINT_EXAMPLES = """
Example:
  ssh head mgpu token fingerprint
"""

EXAMPLES = """
Example, on the head node:
  mgpu token create --name laptop         shown once, here
and on the laptop:
  mgpu token trust https://head:8443      is it the head's certificate?
  mgpu token save https://head:8443       type or paste it
"""

token = Group(
    "token",
    "What clients show that come over TCP: made and revoked on the head, or by ssh://.",
    COMMANDS,
    examples=EXAMPLES,
)


@command(
    Option("--user", "U", "For that user (admins)."),
    Option("--name", "LABEL", "Where it will be, for the list."),
    Option("--expires", "TIME", "Like 12h, 90d (default) or never."),
    examples=CREATE_EXAMPLES,
)
def create(session: Session, /, user: str | None, name: str | None, expires: str | None) -> None:
    """Make a token. It is printed this once, alone on stdout; the master keeps only what it can be checked by. Whoever
    has it is you to the master, until it expires or is revoked."""
    body = {"user": user or "", "name": name or "", "expires": expires or ""}
    answer = session.call("POST", "/v1/tokens", body)
    if session.json:
        session.print_json(answer)
        return
    print(answer["token"])
    until = f"until {local_time(answer['expires'])}" if answer["expires"] else "until it is revoked"
    say(f"token {answer['token_id']} of {answer['user']}, {until}; on the client: mgpu token save https://HEAD:PORT,")
    say("which reads it, or a file of mode 600 that MGPU_TOKEN_FILE names")
    if not answer.get("listens"):
        say("the master does not listen on TCP yet: master: {host: ..., port: ...} in its configuration")


@command(examples=LIST_EXAMPLES)
def list_tokens(session: Session, /) -> None:
    """Show your tokens, an admin those of all: not what they are, but whose, and when they were used last."""
    answer = session.call("GET", "/v1/tokens")
    if session.json:
        session.print_json(answer)
        return
    rows = [
        [
            each["token_id"],
            each["user"],
            each["name"],
            each["state"],
            *(local_time(each[key])[:16] for key in ("created", "expires", "last_used")),
        ]
        for each in answer["tokens"]
    ]
    session.print_lines(table(HEADERS, rows, shrink=[(2, 6)]))


@command(Argument("token_id", "ID"), examples=REVOKE_EXAMPLES)
def revoke(session: Session, /, token_id: str) -> None:
    """End a token at once: nobody comes in with it, and what was opened with it is closed within seconds."""
    answer = session.call("POST", f"/v1/tokens/{quote(token_id)}/revoke", {})
    if session.json:
        session.print_json(answer)
    else:
        print(f"Revoked token {answer['token_id']} of {answer['user']}")


@command(examples=FINGERPRINT_EXAMPLES)
def fingerprint(session: Session, /) -> None:
    """Show the fingerprint of the certificate that the master shows over TCP, to compare with what clients see."""
    answer = session.master(start_if_missing=False).call("GET", "/v1/status")
    found = answer.get("fingerprint")
    if not found:
        what = f"the master listens at {answer['listens']}" if answer.get("listens") else "the master listens nowhere"
        raise MasterError("not_found", f"{what}: there is no certificate", "master: {host: ..., port: ...}")
    if session.json:
        session.print_json({"fingerprint": found, "listens": answer["listens"]})
    else:
        print(found)
