"""mgpu doctor: the whole walk from this shell to a GPU, and to the master; with --residue, what was left on nodes."""

from __future__ import annotations

from mgpu.cli.findings import counted, lines
from mgpu.cli.session import Session, refusal
from mgpu.cli.syntax import Argument, Option, command
from mgpu.client.http import MasterError
from mgpu.lean.typing import TYPE_CHECKING, Any
from mgpu.wording.figures import count
from mgpu.wording.letters import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mgpu.client.locate import Location
    from mgpu.config.model import Config, NodeConfig
    from mgpu.core.finding import Finding

EXAMPLES = """
Examples:
  mgpu doctor                    the master and all nodes
  mgpu doctor gpu01 gpu[05-08]   these nodes
  mgpu doctor --residue gpu01    what mgpu has left there
"""


@command(
    Option("--residue", "", "List all that mgpu has left on nodes, instead."),
    Argument("names", "[NODE]...", nargs="*"),
    examples=EXAMPLES,
)
def doctor(session: Session, /, residue: bool, names: tuple[str, ...]) -> int:
    """Find out why a node or the master does not do what it should, and what to do about it.

    It logs in on the nodes itself, as you and from this shell, and looks at everything between a name and a GPU, in
    order; without NODE also at the way to the master. Nothing is changed. The exit status is 1 if anything has failed.
    """
    if residue:
        from mgpu.cli.residue import show_residue

        return show_residue(session, names)
    report = Report(session)
    try:
        place = session.location()
        if place.endpoint.dialer is not None:
            return look_elsewhere(report, place, names)
        config = loaded(place.config)
    except MasterError as error:
        if names:
            raise
        report.begin("master")
        report.master = broken_config(error)
        report.show(report.master)
        return report.end()
    look(report, place, config, names)
    return report.end()


def look(report: Report, place: Location, config: Config, names: Sequence[str]) -> None:
    """The master first, the nodes in the inventory's order."""
    from pathlib import Path

    from mgpu.doctor.case import Case
    from mgpu.doctor.master import Master
    from mgpu.doctor.master import look as look_at_master
    from mgpu.doctor.walk import examine_all

    wanted = chosen(config, names)
    master = Master(place)
    if not names:
        report.begin("master")
        report.master = list(look_at_master(master, config))
        report.show(report.master)
    own = Path(place.state_dir, "known_hosts")
    cases = [Case(node, config, own, master.view(node.name)) for node in wanted]
    for case, findings in examine_all(cases):
        report.begin(case.node.name)
        report.nodes.append((case.node.name, findings))
        report.show(findings)


def look_elsewhere(report: Report, place: Location, names: Sequence[str]) -> int:
    """Raises MasterError for nodes: their ways begin at the master's machine."""
    from mgpu.client.dial import Dialer
    from mgpu.doctor.elsewhere import look, look_by_token

    dialer = place.endpoint.dialer
    assert dialer is not None
    if names:
        hint = f"there: ssh {dialer.shown} mgpu doctor {' '.join(names)}"
        raise MasterError("bad_request", f"nodes are looked at from the master's machine, {dialer.shown}", hint)
    report.begin("master")
    report.master = list(look(place, dialer) if isinstance(dialer, Dialer) else look_by_token(place))
    report.show(report.master)
    return report.end()


def loaded(path: str) -> Config:
    """Raises MasterError with all faults of the file."""
    from pathlib import Path

    from mgpu.config.load import load
    from mgpu.core.errors import ConfigError

    try:
        return load(Path(path) if path else None)
    except ConfigError as error:
        raise refusal(error) from error


def broken_config(error: MasterError) -> list[Finding]:
    from mgpu.core.finding import failure

    hint = error.hint or "mgpu config check says the same: mend the file first"
    return [failure("config", line, hint) for line in error.message.splitlines()]


def chosen(config: Config, names: Sequence[str]) -> list[NodeConfig]:
    """The nodes meant, in the inventory's order. Raises MasterError for a name that is none."""
    from mgpu.config.faults import did_you_mean
    from mgpu.core.errors import RequestError
    from mgpu.core.hostlist import expand

    try:
        wanted = {each for name in names for each in expand(name)}
    except RequestError as error:
        raise refusal(error) from error
    known = [str(node.name) for node in config.nodes]
    for name in sorted(wanted - set(known)):
        raise MasterError("not_found", f"there is no node {name!r}{did_you_mean(name, known)}", "mgpu nodes lists them")
    return [node for node in config.nodes if not names or node.name in wanted]


class Report:
    """Text as it comes, or one document at the end."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.master: list[Finding] = []
        self.nodes: list[tuple[str, list[Finding]]] = []

    def begin(self, title: str) -> None:
        if not self._session.json:
            print(clean(title))

    def show(self, findings: Sequence[Finding]) -> None:
        if not self._session.json:
            self._session.print_lines(list(lines(findings)))

    def end(self) -> int:
        """The exit status."""
        everything = [*self.master, *(finding for _, findings in self.nodes for finding in findings)]
        if self._session.json:
            nodes = [{"node_id": name, "findings": documents(findings)} for name, findings in self.nodes]
            self._session.print_json({"master": documents(self.master), "nodes": nodes})
        else:
            print(f"{count(len(self.nodes), 'node')}: {counted(everything)}")
        return int(any(finding.status == "failure" for finding in everything))


def documents(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [finding.as_json() for finding in findings]
