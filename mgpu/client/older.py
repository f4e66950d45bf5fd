"""What following a job was limited by in the older system, where nobody said otherwise; the job goes on."""

from __future__ import annotations

# Seconds, and a count.
DEFAULTS = {
    "session_timeout": "7200",
    "connection_timeout": "30",
    "max_wait_time": "300",
    "max_consecutive_timeouts": "30",
}
