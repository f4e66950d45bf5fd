"""What a command of mgpu ends with, by the code of the error that it says: the master's and the client's alike."""

from __future__ import annotations

GENERAL = 1
OF_CODE = {
    "error": GENERAL,
    "not_found": GENERAL,
    "already_ended": GENERAL,
    "cannot_restart": GENERAL,
    "node_unreachable": GENERAL,
    "bad_request": 2,
    "bad_config": 2,
    "other_config": 2,
    "store": 69,
    "not_read": 69,
    "other_version": 69,
    "no_master": 69,
    "busy": 69,
    "not_allowed": 77,
    "no_token": 77,
}
