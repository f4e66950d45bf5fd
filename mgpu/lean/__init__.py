"""What short commands need of some large modules of Python's, without importing those: the start of Python itself and
what it has to load are most of their time."""
