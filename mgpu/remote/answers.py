"""What the answers of a node mean, as values. They may hold anything: what does not read as it should is left out."""

from __future__ import annotations

import re

from mgpu.core.observation import RawProbe
from mgpu.core.reconcile import PartAnswer, is_ask
from mgpu.remote.shell import Reply

_SIZE = re.compile(r"\d{1,18}", re.ASCII)
_STATUS = re.compile(r"\d{1,3}", re.ASCII)
_SECONDS = re.compile(r"\d{1,5}", re.ASCII)
_EPOCH = re.compile(r"\d{1,12}", re.ASCII)
_MOST_WORDS = 1000  # characters, of what a probe tells in one line


def words_of(reply: Reply, skip: int = 0) -> str:
    """What it says to people behind so many words that it says to us."""
    return " ".join(reply.words[skip:]).strip() or reply.status


def parse_state(text: str) -> dict[str, PartAnswer]:
    """By key; lines as `op_state` of node/serve/orders.sh writes them."""
    records: dict[str, dict[str, str]] = {}
    alive: set[str] = set()
    sizes: dict[str, tuple[int, int]] = {}
    steps: dict[str, str] = {}
    asks: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, rest = line.partition(" ")
        name, _, value = rest.partition(" ")
        if not name:
            continue
        found = records.setdefault(key, {})
        if name == "alive":
            alive.add(key)
        elif name == "size":
            numbers = [int(word) for word in value.split() if _SIZE.fullmatch(word)]
            if len(numbers) == 2:
                sizes[key] = (numbers[0], numbers[1])
        elif name == "step":
            steps[key] = value
        elif name == "ask":
            if is_ask(value):
                asks.setdefault(key, []).append(value)
        else:
            found[name] = value
    return {
        key: PartAnswer(found, key in alive, sizes.get(key), steps.get(key, ""), tuple(asks.get(key, ())))
        for key, found in records.items()
    }


def parse_probe(sections: dict[str, tuple[str, str]], reply: Reply) -> RawProbe:
    """`sections`: name -> (the words after the name, the text below)."""

    def word(name: str) -> str:
        return sections.get(name, ("", ""))[0][:_MOST_WORDS]

    def text(name: str) -> str:
        return sections.get(name, ("", ""))[1]

    def told(name: str) -> str | None:
        return text(name) if name in sections else None

    epoch, check, took = word("epoch"), word("check"), word("took")
    return RawProbe(
        boot_id=word("boot"),
        hostname=word("hostname"),
        epoch_s=float(epoch) if _EPOCH.fullmatch(epoch) else None,
        gpu_status=reply.number(0),
        gpu_text=text("gpus"),
        pids_status=reply.number(1),
        pids_text=text("pids"),
        process_text=text("processes"),
        fields=tuple(filter(None, word("fields").split(","))),
        smi_path=word("smi"),
        searched=word("searched"),
        mig_list=text("listed"),
        mig_table=text("table"),
        keepout=text("keepout").strip(),
        obstructed=text("obstructed"),
        check_status=int(check) if _STATUS.fullmatch(check) else None,
        check_text=text("check"),
        facts_text=text("facts"),
        topology_text=told("topology"),
        kernel_text=told("kernel"),
        took_s=int(took) if _SECONDS.fullmatch(took) else 0,
    )
