"""`python -m mgpu`."""

from mgpu.cli.main import main

main()
