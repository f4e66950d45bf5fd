"""Who is next among jobs of equal priority.

    score = wait / planned time x sqrt(GPUs) x 1 / (1 + use of the user) x 1 / (1 + use of the account)

A wait counts in units of the time that the job is planned to take (at least MOMENT_S), so that nobody waits long for
a short job; a wide job finds room less often than a narrow one, and catches up by the square root. Use is in GPU-hours,
half of which are forgotten in a half-life: a user's in units of what the average user of the same account has used, an
account's of what its shares entitle it to. So 0 stands for somebody who has used nothing lately, 1 for the average.

Each score grows without end as the job waits; use alone decides nothing. And who has waited for `longest_s` comes
before all who have not, in order of submission: from then on nothing that is submitted later is taken before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log, sqrt

from mgpu.core.plan import Owner, PendingJob, Precedence
from mgpu.core.shape import shape_of

DAY_S = 86400.0
MOMENT_S = 600.0  # a shorter job counts as one of this length
NOTABLE = 0.001  # of the use of all: who has less does not count among those over whom it is averaged
LOOK_S = 3600.0  # so often it is counted who these are
REBASE = 256.0  # half-lives after which the unit is chosen anew, long before a float overflows


@dataclass(frozen=True, slots=True)
class FairShare:
    """`half_life_s` None = use does not count, only the wait. `shares` of the accounts; () = accounts do not count."""

    half_life_s: float | None = 7 * DAY_S
    longest_s: float = 28 * DAY_S
    shares: Mapping[str, int] = field(default_factory=dict)

    @property
    def asks_span(self) -> bool:
        """Whether the order depends on how long jobs are planned to take; on whose they are (`asks_owner`)."""
        return self.longest_s > 0

    @property
    def asks_owner(self) -> bool:
        return self.asks_span and self.half_life_s is not None


FIFO = FairShare(None, 0.0)


@dataclass(frozen=True, slots=True)
class Standing:
    """An owner's use, in units of what is fair; `gpu_hours` are the user's own."""

    user_use: float = 0.0
    account_use: float = 0.0
    gpu_hours: float = 0.0

    @property
    def factor(self) -> float:
        return 1 / (1 + self.user_use) / (1 + self.account_use)


NOTHING_USED = Standing()


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a job that waits stands among those of its priority, and why. `first`: it has waited for so long that it
    comes before all who have not."""

    owner: Owner
    score: float
    wait_s: float
    planned_s: float
    gpus: int
    standing: Standing
    first: bool


def pace(span_s: float, gpus: int) -> float:
    return sqrt(gpus or 1) / max(span_s, MOMENT_S)


@dataclass(slots=True)
class _Sum:
    """Use is `done + gpus * grown(now)`: only starts and ends change the two (see `Ledger`)."""

    done: float = 0.0
    gpus: int = 0


class Ledger:
    """What every owner has used: told of starts and ends, it never looks through the jobs.

    What a job has used is a sum over its seconds, in which a second of a half-life ago counts half. All of it shrinks
    at the same pace; so it is kept in a unit that shrinks likewise, and stays what it is until a job starts or ends.
    """

    def __init__(self, rules: FairShare, now: float) -> None:
        self.rules = rules
        self._half = rules.half_life_s or inf
        self._epoch = now
        self._owners: dict[Owner, _Sum] = {}
        self._accounts: dict[str, _Sum] = {}
        self._users: dict[str, int] = {}  # of each account those whose use is notable
        self._looked = -inf

    def used(self, owner: Owner, gpus: int, start: float, end: float) -> None:
        """By a job that has ended."""
        self._add(owner, gpus * (self._grown(end) - self._grown(start)), 0)

    def change(self, owner: Owner, gpus: int, at: float) -> None:
        """So many GPUs more (or less) are in use from now on."""
        self._renew(at)
        self._add(owner, -gpus * self._grown(at), gpus)

    def hold(self, gpus: Mapping[Owner, int], at: float) -> None:
        """These are the GPUs in use from now on."""
        for owner in [owner for owner, own in self._owners.items() if own.gpus and owner not in gpus]:
            self.change(owner, -self._owners[owner].gpus, at)
        for owner, count in gpus.items():
            known = self._owners.get(owner)
            if known is None or known.gpus != count:
                self.change(owner, count - (known.gpus if known else 0), at)

    def known(self) -> Sequence[Owner]:
        return tuple(self._owners)

    def order(self, owners: Iterable[Owner | None], now: float) -> Precedence:
        factors: dict[Owner | None, float] = {}
        if self.rules.asks_owner:
            self._renew(now)
            grown = self._grown(now)
            factors = {owner: 1 / (1 + self._user_use(owner, grown)) for owner in owners if owner}
            if self.rules.shares:
                factors = {
                    owner: one / (1 + self._account_use(owner, grown)) for owner, one in factors.items() if owner
                }
        return Precedence(now, self.rules.longest_s, factors)

    def standing(self, owner: Owner, now: float) -> Standing:
        if not self.rules.asks_owner:
            return NOTHING_USED
        self._renew(now)
        grown = self._grown(now)
        own = self._owners.get(owner)
        hours = (own.done / grown + own.gpus) * self._half / log(2) / 3600 if own else 0.0
        return Standing(self._user_use(owner, grown), self._account_use(owner, grown), max(0.0, hours))

    def turn(self, job: PendingJob, now: float) -> Turn:
        owner = job.owner or Owner(job.user)
        standing, gpus = self.standing(owner, now), shape_of(job.request).total
        wait_s = max(0.0, now - job.submit_time)
        score = wait_s * pace(job.span_s, gpus) * standing.factor
        return Turn(owner, score, wait_s, max(job.span_s, MOMENT_S), gpus, standing, wait_s >= self.rules.longest_s)

    def _user_use(self, owner: Owner, grown: float) -> float:
        """In units of the average of the users of the same account."""
        own = self._owners.get(owner)
        if own is None:
            return 0.0
        account = self._accounts[owner.account]
        use, of_all = own.done + own.gpus * grown, account.done + account.gpus * grown
        return use * self._users.get(owner.account, 1) / of_all if use > 0 and of_all > 0 else 0.0

    def _account_use(self, owner: Owner, grown: float) -> float:
        """In units of what its shares entitle it to, among the accounts that use anything."""
        shares = self.rules.shares
        if not shares or owner.account not in self._accounts:
            return 0.0
        uses = {name: max(0.0, one.done + one.gpus * grown) for name, one in self._accounts.items()}
        total = sum(uses.values())
        if total <= 0:
            return 0.0
        there = sum([shares.get(name, 1) for name, use in uses.items() if use >= NOTABLE * total])
        return uses[owner.account] / total * there / shares.get(owner.account, 1)

    def _grown(self, at: float) -> float:
        """The use of one GPU from the beginning of time until then, in the shrinking unit."""
        return float(2.0 ** ((at - self._epoch) / self._half))

    def _add(self, owner: Owner, done: float, gpus: int) -> None:
        if not self.rules.asks_owner:
            return
        if owner not in self._owners:
            self._looked = -inf  # one more to be averaged over
        for each in (self._owners.setdefault(owner, _Sum()), self._accounts.setdefault(owner.account, _Sum())):
            each.done += done
            each.gpus += gpus

    def _renew(self, now: float) -> None:
        """Before the unit becomes too small for a float, a new one is chosen; and now and then who uses anything is
        counted."""
        lives = (now - self._epoch) / self._half
        if lives > REBASE:
            self._epoch = now
            for one in (*self._owners.values(), *self._accounts.values()):
                one.done *= 2.0**-lives
        if not self._looked <= now < self._looked + LOOK_S:
            self._look(now)

    def _look(self, now: float) -> None:
        """Count those whose use is notable, forget those whose use no longer is anything."""
        self._looked = now
        grown = self._grown(now)
        uses = {owner: one.done + one.gpus * grown for owner, one in self._owners.items()}
        total = sum(uses.values())
        self._users = {}
        for owner, use in uses.items():
            if use >= NOTABLE * total:
                self._users[owner.account] = self._users.get(owner.account, 0) + 1
            elif use < NOTABLE * NOTABLE * total and not self._owners[owner].gpus:
                del self._owners[owner]
