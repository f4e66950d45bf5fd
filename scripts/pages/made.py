"""What of docs/ is made of the code: whole pages, and tables between marks in pages that somebody wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scripts.pages import commands, configuration, doctor, python, states, variables

DOCS = Path(__file__).parents[2] / "docs"
NOTE = "<!-- made of the code by scripts/docs --write -->\n"
BEGIN, END = "<!-- {name}: made of the code by scripts/docs --write -->\n", "<!-- end of {name} -->\n"
PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands.page,
    "python-reference.md": python.page,
    "states.md": states.page,
    "variables.md": variables.page,
}
TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "configuration.md": {
        "keys": configuration.of_the_file,
        "keys of a node": configuration.of_a_node,
        "keys of a partition": configuration.of_a_partition,
        "keys of an account": configuration.of_an_account,
        "limits": configuration.of_limits,
    },
    "troubleshooting.md": {"words of the doctor": doctor.page},
}


def made() -> dict[str, str]:
    """name -> text, of all files that hold something of it."""
    found = {name: NOTE + page() for name, page in PAGES.items()}
    found |= states.pictures()
    for name, tables in TABLES.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        for what, table in tables.items():
            text = with_table(text, what, table())
        found[name] = text
    return found


def with_table(text: str, name: str, table: str) -> str:
    begin, end = BEGIN.format(name=name), END.format(name=name)
    before, found, rest = text.partition(begin)
    _, closed, behind = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"there are no marks of {name}")
    return f"{before}{begin}\n{table}\n{end}{behind}"
