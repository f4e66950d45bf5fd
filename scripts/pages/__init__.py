"""The documentation: pages that are made of the code (`scripts/docs --write`), and what the site adds to docs/."""
