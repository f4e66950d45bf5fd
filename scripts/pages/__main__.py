"""`scripts/docs --write`."""

from __future__ import annotations

from scripts.pages.made import DOCS, made


def main() -> None:
    for name, text in made().items():
        place = DOCS / name
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.write_text(text, encoding="utf-8")
            print(f"docs/{name}")


main()
