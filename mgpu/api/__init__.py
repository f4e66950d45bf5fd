"""The master's HTTP face.

aiohttp, as it is imported, makes itself ready to be a client of any site, for which it reads all authorities that this
machine trusts: 35 ms and 2 MiB. The master is no such client, so for that moment there are none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # OpenSSL looks where these say


@contextmanager
def _without_authorities() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _AUTHORITIES}
    os.environ.update(dict.fromkeys(_AUTHORITIES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with _without_authorities():
    import aiohttp as aiohttp
