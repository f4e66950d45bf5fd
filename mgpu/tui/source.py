"""All that the monitor asks of the master and wishes from it: calls that take their time, for worker threads.

A monitor that stays open all day starts no master: one that somebody stopped is shown as gone, and comes back by
itself when somebody starts it.
"""

from __future__ import annotations

import os
from itertools import zip_longest
from typing import Any

from mgpu.client.http import MasterError, quote, with_query
from mgpu.client.job_stream import JobStream
from mgpu.client.locate import Location
from mgpu.client.master import Master
from mgpu.client.own_way import own_way
from mgpu.tui import forms

Json = dict[str, Any]

VERBS = {"cancel": "cancelled", "hold": "held", "release": "released", "requeue": "requeued"}


class Source:
    """Any number of threads may call it at once. Whatever the master, or the way to it, refuses is a MasterError, and
    so is an answer of another form than what is drawn here."""

    def __init__(self, location: Location) -> None:
        self._master = Master(location, start_if_missing=False)
        self._nodes: list[Json] = []  # of the last answer: their form is known

    # --- what there is ---

    def window(self, **wanted: Any) -> Json:
        """Some rows of the queue; the words are those of `GET /v1/window`."""
        answer = self._get(with_query("/v1/window", **wanted), forms.OBJECT)
        return answer if answer.get("same") else readable(answer, forms.WINDOW)

    def nodes(self) -> list[Json]:
        answer = self._get("/v1/nodes", forms.LIST_OF_NODES)
        changed = [node for node, known in zip_longest(answer["nodes"], self._nodes) if node != known]
        if not forms.NODES.fits({"nodes": changed}):  # a node is looked at once or twice a minute, its answer each time
            readable(answer, forms.NODES)
        found: list[Json] = answer["nodes"]
        self._nodes = found
        return found

    def status(self) -> Json:
        return self._get("/v1/status", forms.OBJECT)

    def job(self, job_id: int | str) -> Json:
        return self._get(f"/v1/jobs/{quote(str(job_id))}", forms.JOB)

    def why(self, job_id: int | str) -> Json:
        return self._get(f"/v1/jobs/{quote(str(job_id))}/why", forms.WHY)

    def job_use(self, job_id: int | str) -> Json:
        return self._get(f"/v1/jobs/{quote(str(job_id))}/use", forms.JOB_USE)

    def node(self, name: str) -> Json:
        return self._get(f"/v1/nodes/{quote(name)}", forms.NODE)

    def node_use(self, name: str, hours: int = 24) -> Json:
        return self._get(with_query(f"/v1/nodes/{quote(name)}/use", hours=hours), forms.NODE_USE)

    def stream(self, job_id: int | str, rank: int | None = None, **how: Any) -> JobStream:
        """Its output as it comes; `how` as JobStream has it."""
        master = Master(own_way(self._master.location), start_if_missing=False)
        return JobStream(master, job_id, rank, **how)

    # --- what is wished ---

    def act(self, verb: str, job_id: int | str) -> None:
        """One of VERBS. Raises MasterError with the words of whoever refused it."""
        wish = {"request_id": os.urandom(16).hex(), "ids": [job_id]}
        answer = self._post(f"/v1/{verb}", wish, forms.ERRORS)
        for error in answer.get("errors") or ():
            raise MasterError(str(error.get("code", "error")), str(error["message"]), str(error.get("hint", "")))

    def drain(self, name: str, reason: str) -> Json:
        return self._post(f"/v1/nodes/{quote(name)}/drain", {"reason": reason}, forms.DRAINED)

    def resume(self, name: str) -> Json:
        return self._post(f"/v1/nodes/{quote(name)}/resume", {"reason": ""}, forms.DRAINED)

    def _get(self, path: str, form: forms.Form) -> Json:
        return readable(self._master.call("GET", path), form)

    def _post(self, path: str, body: Json, form: forms.Form) -> Json:
        return readable(self._master.call("POST", path, body), form)


def readable(answer: Any, form: forms.Form) -> Json:
    """Raises MasterError."""
    try:
        found: Json = form.checked(answer)
    except forms.Malformed as error:
        raise MasterError("error", f"the master's answer cannot be read: {error}", "is it of this version?") from error
    return found
