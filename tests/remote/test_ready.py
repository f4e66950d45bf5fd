"""Where more files are open than select() knows."""

import fcntl
import os
import resource
from contextlib import suppress

import pytest

from mgpu.master import outside
from mgpu.remote.channel import LocalConnection
from mgpu.remote.ready import ready

FIRST_FREE = 1100


@pytest.fixture
def crowded():
    """All descriptors below that number are taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < FIRST_FREE + 100:
        pytest.skip("no more may be opened here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FIRST_FREE + 100), hard))
    one = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    taken = [one]
    while taken[-1] < FIRST_FREE:
        taken.append(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 0))
    try:
        yield
    finally:
        for descriptor in taken:
            with suppress(OSError):
                os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_shell_of_this_machine_is_heard(crowded):
    channel = LocalConnection({"PATH": "/usr/bin:/bin"}).open_channel('read word && echo "$word" && echo no >&2')
    channel.send(b"yes\n", 10.0)
    assert (channel.receive(10.0), channel.receive_error(10.0)) == (b"yes\n", b"no\n")
    channel.close()


def test_a_command_of_the_site_is_run(crowded):
    words = ("/bin/sh", "-c", "echo bad >&2; exit 3")
    assert outside.run(words, b"{}", 10.0, lambda: False) == "/bin/sh ended with exit status 3: bad"


def test_without_a_descriptor_it_is_said_why(crowded):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FIRST_FREE, hard))
    assert outside.run(("/bin/true",), b"{}", 10.0, lambda: False) == "/bin/true cannot be run: Too many open files"


def test_what_has_not_come_is_not_there():
    reader, writer = os.pipe()
    assert not ready(reader, 0.0)
    assert ready(writer, 0.0, to_write=True)
    os.write(writer, b"x")
    assert ready(reader, None)
    os.close(writer)
    assert os.read(reader, 10) == b"x"
    assert ready(reader, None)
    os.close(reader)


@pytest.mark.parametrize("timeout_s", [1e8, 1e30, float("inf")])
def test_no_time_is_too_long(timeout_s):
    reader, writer = os.pipe()
    assert ready(writer, timeout_s, to_write=True)
    os.close(writer)
    assert ready(reader, timeout_s)
    os.close(reader)
