"""What goes wrong between the master and a node. The message is the reason that people see beside the node."""

from __future__ import annotations

from enum import Enum

from mgpu.core.errors import MgpuError


class Trouble(str, Enum):
    """What kind of trouble, so that nobody has to read the message."""

    UNREACHABLE = "unreachable"  # network, sshd, timeouts: may go by itself
    HOST_KEY_UNKNOWN = "host_key_unknown"
    HOST_KEY_CHANGED = "host_key_changed"
    AUTHENTICATION = "authentication"
    UNPREPARED = "unprepared"  # it was not even tried: on our side something is wrong or missing
    NO_COMMANDS = "no_commands"  # logged in, but the account cannot run our program
    REFUSED = "refused"  # no further session on this connection
    GONE = "gone"  # the node answers, but has not got what was asked for


class RemoteError(MgpuError):
    """A request to a node got no answer. `transient`: worth trying again without anybody's help."""

    code = "node_unreachable"

    def __init__(self, message: str, trouble: Trouble = Trouble.UNREACHABLE) -> None:
        super().__init__(message)
        self.trouble = trouble
        self.sent = True  # perhaps; False = nothing of the request has left us

    @property
    def transient(self) -> bool:
        return self.trouble in (Trouble.UNREACHABLE, Trouble.REFUSED)
