"""mgpu from Python. `from mgpu import Client` is the way in: see docs/python.md."""
