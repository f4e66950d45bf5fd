"""An option of a command as data: what the commands' readers, a script's own lines and Python's keywords go by."""

from __future__ import annotations

from mgpu.lean.typing import Any, Iterable, Sequence

BOUND = 10**9  # 31 years in seconds, and more than there are jobs or lines: no clock breaks below it
FROM_0 = range(BOUND)
FROM_1 = range(1, BOUND)
PORTS = range(1, 65536)
PORTS_OR_0 = range(65536)  # 0 = any that is free


class Option:
    """`flags`: "-G --gpus"; `metavar` "" = a switch. `key`: its name in the function, else the last flag's. `whole`: it
    is a whole number, one of these. `bare`: its value when none is attached, as in Slurm's -I[s]; a whole number
    behind it is its value as well, unless its metavar stands in brackets."""

    def __init__(
        self,
        flags: str,
        metavar: str,
        help: str,
        *,
        key: str = "",
        whole: range | None = None,
        repeated: bool = False,
        bare: str = "",
    ) -> None:
        self.flags = flags.split()
        self.metavar = metavar
        self.help = help
        self.key = key or self.flags[-1].lstrip("-").replace("-", "_")
        self.whole = whole
        self.repeated = repeated
        self.bare = bare

    def takes(self, following: Sequence[str]) -> bool:
        """Of one with a `bare`: whether the word behind it is its value. "" = an unset variable, to be refused."""
        if not following or self.metavar.startswith("["):
            return False
        return not following[0] or following[0].lstrip("-").isdigit()

    @property
    def absent(self) -> Any:
        """What the function gets when it is not given."""
        return () if self.repeated else None if self.metavar else False


def by_flag(options: Iterable[Option]) -> dict[str, Option]:
    return {flag: option for option in options for flag in option.flags}
