"""The few errors that cross a border. Each message is one line written for the person at the terminal.

What is not here is not an error: a job that does not fit is a `Wait`, a dead node is an event.
"""

from __future__ import annotations

from mgpu import exit_status


class MgpuError(Exception):
    """Root of ours. `code` is stable and machine-readable."""

    code = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def exit_code(self) -> int:
        """What a command ends with."""
        return exit_status.OF_CODE.get(self.code, exit_status.GENERAL)

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message, "hint": self.hint}


class RequestError(MgpuError):
    """The user can fix it."""

    code = "bad_request"


class NotFound(MgpuError):
    code = "not_found"


class NotAllowed(MgpuError):
    code = "not_allowed"


class ConfigError(MgpuError):
    """All faults of a configuration at once; each is `file:line:column: key: what`."""

    code = "bad_config"

    def __init__(self, faults: list[str], hint: str = "") -> None:
        super().__init__("\n".join(faults), hint)
        self.faults = faults


class StoreError(MgpuError):
    code = "store"


class InvalidTransition(Exception):
    """A programmer's error: an event that the table does not know in that state. Never caught to go on."""
