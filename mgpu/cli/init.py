"""mgpu init: from the hosts that ssh knows to a cluster that answers."""

from __future__ import annotations

import contextlib
import os
import sys

from mgpu.cli.session import Session, bad_request
from mgpu.cli.syntax import Argument, Option, command

EXAMPLES = """
Examples:
  mgpu init                                lists ~/.ssh/config's hosts, asks
  mgpu init 'gpu[01-08]' train@login2      these
  mgpu init --key 'gpu[01-08]'             with a key of its own: each password
                                           is asked for once
  mgpu init 'gpu[01-08]' --yes --no-probe  for a script: only writes the files
"""


@command(
    Argument("hosts", "[HOST]...", "*"),
    Option("--output", "DIR", "Write there instead of where mgpu looks by default."),
    Option("--force", "", "Write anew, and keep a copy of what is there."),
    Option("--key", "", "Make a key of its own and have OpenSSH install it on the nodes."),
    Option("--no-probe", "", "Write the files and ask nothing of the nodes."),
    Option("--yes", "", "Do not ask: believe the host keys that nodes show."),
    examples=EXAMPLES,
)
def init(
    session: Session, /, hosts: tuple[str, ...], output: str | None, force: bool, key: bool, no_probe: bool, yes: bool
) -> int:
    """Write a configuration: the hosts of ~/.ssh/config become nodes, are asked what they have, and can get jobs.

    Writes cluster_config.yaml and inventory/nodes.yaml, with comments, into ~/.config/mgpu (or --output). Then the
    fingerprints of each host whose key is not known yet are shown, you are asked, and all nodes are probed.
    """
    if not (os.isatty(0) and os.isatty(2)) and not (hosts and yes):
        raise bad_request("init asks which hosts to take, and nobody is there to answer", "give them, and --yes")
    if session.config:
        raise bad_request("init makes a configuration, --config names one", "--output DIR says where to write it")
    if key and no_probe:
        raise bad_request("--key logs in on the nodes, --no-probe does not", "drop one of them")
    from mgpu.cli.setup.dialog import Wanted, run

    # with --json, stdout holds the document alone
    with contextlib.redirect_stdout(sys.stderr) if session.json else contextlib.nullcontext():
        status, written = run(session, Wanted(hosts, output or "", force, key, not no_probe, yes))
    if session.json:
        session.print_json(written)
    return status
