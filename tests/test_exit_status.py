"""What a command ends with: for each error that the master may say."""

from __future__ import annotations

from collections.abc import Iterator

import mgpu.daemon  # with all that a master is
from mgpu.client.http import MasterError
from mgpu.core.errors import MgpuError
from mgpu.exit_status import OF_CODE


def kinds(of: type[MgpuError]) -> Iterator[type[MgpuError]]:
    yield of
    for kind in of.__subclasses__():
        yield from kinds(kind)


def test_every_error_has_its_own_and_the_client_the_same() -> None:
    assert mgpu.daemon
    codes = {kind.code for kind in kinds(MgpuError)}
    assert codes <= OF_CODE.keys() and len(codes) > 8
    for code, status in OF_CODE.items():
        error = MgpuError("")
        error.code = code
        assert (error.exit_code, MasterError(code, "").exit_code) == (status, status)
