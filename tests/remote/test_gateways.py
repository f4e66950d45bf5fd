"""Logins that are shared: how many there are, and when they end."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace

import pytest

from mgpu.remote.connect import connect
from mgpu.remote.gateways import NODES_A_LOGIN, Gateways
from mgpu.remote.shell import NodeShell
from tests.lab import Lab
from tests.remote.test_ssh import LIMITS, NOWHERE, target


class Link:
    def __init__(self) -> None:
        self.lives = True


def made() -> tuple[Gateways[str, Link], list[Link]]:
    links: list[Link] = []
    return Gateways(lambda link: link.lives, lambda link: setattr(link, "lives", False)), links


def login(links: list[Link]) -> Link:
    links.append(Link())
    return links[-1]


def test_many_share_one_and_the_last_ends_it() -> None:
    gateways, links = made()
    borrowed = [gateways.borrow("a", lambda: login(links)) for _ in range(NODES_A_LOGIN)]
    assert len(links) == 1
    for _, release in borrowed[1:]:
        release()
        release()  # once is enough
    assert links[0].lives
    borrowed[0][1]()
    assert not links[0].lives
    gateways.borrow("a", lambda: login(links))
    assert len(links) == 2


def test_a_full_one_gets_company_and_a_dead_one_a_successor() -> None:
    gateways, links = made()
    for _ in range(NODES_A_LOGIN + 1):
        gateways.borrow("a", lambda: login(links))
    gateways.borrow("b", lambda: login(links))
    assert len(links) == 3
    links[1].lives = False
    found, _ = gateways.borrow("a", lambda: login(links))
    assert (len(links), found) == (4, links[3])


def test_a_hundred_at_once_log_in_one_after_the_other() -> None:
    gateways, links = made()
    inside, most = [], []

    def slowly() -> Link:
        inside.append(1)
        most.append(len(inside))
        link = login(links)
        inside.pop()
        return link

    threads = [threading.Thread(target=gateways.borrow, args=("a", slowly)) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(links), max(most)) == (100 // NODES_A_LOGIN, 1)


def test_a_login_that_fails_is_tried_by_the_next() -> None:
    gateways, links = made()

    def refuse() -> Link:
        raise OSError

    with pytest.raises(OSError):
        gateways.borrow("a", refuse)
    assert gateways.borrow("a", lambda: login(links))[0] is links[0]


def test_connections_behind_a_jump_host_share_its_login(lab: Lab) -> None:
    first, second = (target(lab, node) for node in lab.nodes[:2])
    behind = replace(second, hops=(first,))
    made = [connect(behind, "second", NOWHERE, LIMITS) for _ in range(3)]
    try:
        assert len({id(each.logins[0]) for each in made}) == 1
        assert len({id(each.logins[1]) for each in made}) == 3
        made[0].close()
        NodeShell(made[1], LIMITS.login_s).close()  # the others are used on
    finally:
        for each in made:
            each.close()
    with closing(connect(behind, "second", NOWHERE, LIMITS)) as later:
        assert later.logins[0] is not made[0].logins[0]
