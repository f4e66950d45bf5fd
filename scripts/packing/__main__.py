"""`python -m scripts.packing [--clients] [--output DIR]`: see scripts/build."""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.packing import clients, master


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/build")
    parser.add_argument("--clients", action="store_true", help="the small ones alone")
    parser.add_argument("--output", type=Path, default=Path("dist"), metavar="DIR", help="where they go (dist)")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    made = clients.build(given.output)
    if not given.clients:
        made += master.build(given.output)
    for path in made:
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")


main()
