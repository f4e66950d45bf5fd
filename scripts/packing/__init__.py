"""Single-file builds: see scripts/build."""
