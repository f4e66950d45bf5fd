"""What importing the API leaves alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mgpu.whereabouts import environment

TELL = "import mgpu.api, os; print(os.environ.get('SSL_CERT_FILE'), os.environ.get('SSL_CERT_DIR'))"


@pytest.mark.parametrize("before", [{}, {"SSL_CERT_FILE": "/a file"}, {"SSL_CERT_DIR": "", "SSL_CERT_FILE": "x"}])
def test_where_authorities_are_is_said_as_before(before: dict[str, str]) -> None:
    words = [sys.executable, "-c", TELL]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(before), check=True)
    assert done.stdout == f"{before.get('SSL_CERT_FILE')} {before.get('SSL_CERT_DIR')}\n"


def test_none_is_read() -> None:
    tell = "import mgpu.api; from aiohttp import connector; print(connector._SSL_CONTEXT_VERIFIED.cert_store_stats())"
    done = subprocess.run([sys.executable, "-c", tell], capture_output=True, text=True, env=environment({}), check=True)
    assert done.stdout == "{'x509': 0, 'crl': 0, 'x509_ca': 0}\n"
