"""Seeds that once led to a violation, each with what was wrong then: they are run always, at their full size."""

FAILED_ONCE: dict[int, str] = {}
