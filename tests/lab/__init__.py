"""A lab of real sshd hosts on one Linux machine: what the tests and `scripts/lab` run against.

As root every node has network, PID, UTS, IPC and mount namespaces of its own; without root it is one sshd on a
loopback port. Standard library alone. Guide: docs/lab.md.
"""

from tests.lab.lab import Lab, Settings, choose_mode
from tests.lab.node import LabError, Node, Unsupported

__all__ = ["Lab", "LabError", "Node", "Settings", "Unsupported", "choose_mode"]
