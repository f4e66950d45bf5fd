"""A pass that fails must cost nothing that is told only once."""

from __future__ import annotations

from pathlib import Path

from mgpu.config.model import Config
from mgpu.core.health import ProbeFailure
from mgpu.core.model import JobId, NodeName, PartKey
from mgpu.master.inbox import Done, Probed
from mgpu.master.master import Master
from mgpu.store.spool import Spool
from mgpu.store.store import Store


def test_an_order_is_over_although_the_pass_that_heard_it_failed(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "mgpu.db")
    try:
        master = Master(Config(None, ()), store, Spool(tmp_path / "spool"), lambda _inbox: {})
        key = PartKey(JobId(1), 1, 0)
        master._realiser._under_way.add(("start", key))
        master.inbox.put(Done("start", key))
        master.inbox.put(Probed(NodeName("unheard-of"), ProbeFailure("nobody")))
        master.tick()
        assert master.errors()[0].startswith("internal error: KeyError")
        assert master._realiser.under_way
        master.tick()
        assert not master._realiser.under_way
        assert len(master.errors()) == 1
    finally:
        store.close()
