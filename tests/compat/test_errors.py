"""What went wrong by older words, and what is said of it now."""

from __future__ import annotations

import json

from tests.api.elsewhere import free_port
from tests.compat.rows import row
from tests.compat.site import Site

TOKEN = {"MGPU_TOKEN": "mgpu_00000000_" + "0" * 64}


def told(site: Site, host: str, port: int) -> str:
    done = site.run(
        "mgpu_client", "--host", host, "--port", port, "queue", env=TOKEN | {"MGPU_CONNECTION_TIMEOUT": "1"}
    )
    assert (done.code, done.out, len(done.told)) == (69, "", 1), done
    return str(done.err)


@row("Connection refused", "Name or service not known")
def test_nobody_there(site: Site) -> None:
    assert "(Connection refused): does a master listen there?" in told(site, "127.0.0.1", free_port())
    assert "no machine called no-such-head.invalid is known" in told(site, "no-such-head.invalid", 8080)


@row("No route to host", "Connection timed out")
def test_no_way_there(site: Site) -> None:
    """An address of the lab's own network that nobody has; a machine that drops what comes."""
    node = site.lab.nodes[1]
    nobody = node.address.rpartition(".")[0] + ".77"
    assert any(why in told(site, nobody, 8080) for why in ("No route to host", "timed out"))
    node.fault("link", "drop")
    try:
        said = told(site, node.address, 8080)
    finally:
        node.fault("link", "ok")
    assert "(Connection timed out): is it switched on, and does a firewall drop that port?" in said


@row("the ten steps from ps aux to traceroute and nmap")
def test_the_walk(site: Site) -> None:
    assert f"https://0.0.0.0:{site.port}" in site.ok("mgpu", "status")
    [node] = json.loads(site.ok("mgpu", "--json", "doctor", "node001"))["nodes"]
    done = [finding["check"] for finding in node["findings"]]
    steps = ["name", "tcp", "host key", "keys", "login", "nvidia-smi", "master"]
    assert [check for check in done if check in steps] == steps
