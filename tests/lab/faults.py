"""Faults by words: the same for `scripts/lab fault NODE WORDS` and `node.fault(*WORDS)`. One row of FAULTS per kind."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.lab import network, processes
from tests.lab.namespaces import NamespacedNode
from tests.lab.node import LabError, Node, Unsupported

OUTSIDER = "LAB_OUTSIDER=1"
Action = Callable[[Node, list[str]], str]


def apply(node: Node, words: list[str]) -> str:
    """Does it and says what is so now. Raises LabError for words that it does not know."""
    if not words or words[0] not in FAULTS:
        raise LabError(f"no such fault; there are:\n{usage()}")
    action, forms = FAULTS[words[0]]
    try:
        return action(node, words[1:])
    except (IndexError, KeyError, ValueError):
        raise LabError(f"{' '.join(words)}: say it as: {forms}") from None


def usage() -> str:
    return "\n".join(f"  {forms}" for _, forms in FAULTS.values())


def link(node: Node, words: list[str]) -> str:
    if not isinstance(node, NamespacedNode):
        raise Unsupported("loopback has no link of its own: link faults need the lab in namespaces (root)")
    init = node.init()
    if init is None:
        raise LabError(f"{node.name} is off")
    kind = words[0]
    if kind in ("down", "up"):
        network.set_link(node.veth, kind)
    elif kind == "drop":
        network.drop(init.pid, int(words[1]) if words[1:] else 100)
    elif kind == "shut":
        network.shut(init.pid, words[1], {"": "drop", "reject": "reject with tcp reset"}[(words[2:] or [""])[0]])
    elif kind == "rate":
        network.limit_rate(node.veth, init.pid, int(words[1]))
    elif kind == "ok":
        network.set_link(node.veth, "up")
        network.drop(init.pid, 0)
        network.shut(init.pid, "")
        network.limit_rate(node.veth, init.pid, 0)
    else:
        raise ValueError(kind)
    return f"link {' '.join(words)}"


def sshd(node: Node, words: list[str]) -> str:
    kind = words[0]
    signals = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "thaw": signal.SIGCONT}
    if kind in signals:
        for process in node.sshd_pids():
            processes.send(process, signals[kind])
    elif kind in ("stop", "start", "restart"):
        if kind != "start":
            _stop_listener(node)
        if kind != "stop":
            node.start_sshd()
            node.wait_for_sshd()
    else:
        raise KeyError(kind)
    return f"sshd {kind}"


def _stop_listener(node: Node) -> None:
    """Only the listening process: sessions live on, as with a restart by systemd's KillMode=process."""
    file = node.sshd_pid_file()
    node.run(
        f'test -e {file} || exit 0; pid=$(cat {file}); kill "$pid"; while kill -0 "$pid" 2>/dev/null; do :; done',
        _root(node),
    )


def gpu(node: Node, words: list[str]) -> str:
    kind = words[0]
    if kind in ("lost", "hidden"):
        node.gpus.set(int(words[1]), status=kind)
    elif kind == "set":
        column, _, value = words[2].partition("=")
        node.gpus.set(int(words[1]), **{column: value})
    elif kind == "hang":
        node.gpus.fault("hang")
    elif kind == "slow":
        node.gpus.fault(f"slow {float(words[1]):g}")
    elif kind == "fail":
        text = " ".join(words[2:]) or "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
        node.gpus.fault(f"fail {int(words[1])} {text}")
    elif kind == "missing":
        node.run(["mv", node.smi_path(), f"{node.smi_path()}.missing"], _root(node))
    elif kind == "ok":
        node.gpus.clear()
        path = node.smi_path()
        node.run(f"test ! -e {path}.missing || mv {path}.missing {path}", _root(node))
    else:
        raise KeyError(kind)
    return f"gpu {' '.join(words)}"


def home(node: Node, words: list[str]) -> str:
    if not isinstance(node, NamespacedNode):
        raise Unsupported("a loopback home is a plain folder: filling it needs the lab in namespaces (root)")
    node.resize_home(full={"full": True, "ok": False}[words[0]])
    return f"home {words[0]}"


# a shell is not seen on a GPU, and between fork and exec it is still one
IS_SLEEP = 'is_sleep() { read -r comm <"/proc/$1/comm" && [ "$comm" = sleep ]; };'


def outsider(node: Node, words: list[str]) -> str:
    """A process that nobody queued, really running there. Says its pid on the node."""
    if words[0] == "stop":
        processes.kill_all(lambda: [p for p in node.pids() if OUTSIDER in processes.environment(p)])
        return "outsiders stopped"
    index = int(words[0])
    user = words[1] if words[1:] else ("alice" if "alice" in node.accounts else node.user)
    row = next(row for row in node.gpus.rows() if row["index"] == str(index))
    env = [f"CUDA_VISIBLE_DEVICES={row['index']}", "LAB_GPU_MIB=4096", OUTSIDER]
    line = "echo $$; exec sleep infinity >/dev/null 2>&1"
    pid = node.run(["setsid", "-f", "env", *env, "sh", "-c", line], user).stdout.strip()
    node.run(f"{IS_SLEEP} until is_sleep {pid}; do :; done")
    return pid


def kill_jobs(node: Node, words: list[str]) -> str:
    processes.kill_all(node.jobs)
    return "jobs killed"


def reboot(node: Node, words: list[str]) -> str:
    node.reboot()
    node.wait_for_sshd()
    return "rebooted"


def power(node: Node, words: list[str]) -> str:
    if words[0] == "off":
        node.stop()
    elif words[0] == "on":
        node.start()
        node.wait_for_sshd()
    else:
        raise KeyError(words[0])
    return f"power {words[0]}"


def _root(node: Node) -> str:
    return "root" if isinstance(node, NamespacedNode) else node.user


FAULTS: dict[str, tuple[Action, str]] = {
    "link": (link, "link down | up | drop [PERCENT] | shut FIRST-LAST [reject] | rate MBIT | ok"),
    "sshd": (sshd, "sshd stop | start | kill | restart | freeze | thaw"),
    "reboot": (reboot, "reboot"),
    "power": (power, "power off | on"),
    "gpu": (
        gpu,
        "gpu lost I | hidden I | hang | slow SECONDS | fail STATUS [TEXT] | missing | set I COLUMN=VALUE | ok",
    ),
    "home": (home, "home full | ok"),
    "outsider": (outsider, "outsider GPU [USER] | stop"),
    "kill-jobs": (kill_jobs, "kill-jobs"),
}
