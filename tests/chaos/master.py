"""The master as the run sees it: asked over its socket, found by its lock, killed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from mgpu.client import http
from mgpu.client.locate import socket_path
from mgpu.client.lock import lock_path
from tests.chaos.checker import Output
from tests.end_to_end.cluster import Cluster
from tests.lab.processes import Process, alive, read, send, with_files_in

PIECE_B = 4 << 20


class Master:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.database = cluster.state_dir / "mgpu.db"
        self._endpoint = http.Endpoint(socket_path(cluster.state_dir), str(cluster.config_path), (os.getuid(),))
        self.most_at_once = 0

    # --- asking -----------------------------------------------------------------------------------------------------

    def ask(self, path: str) -> Any:
        """Raises MasterError, NoMaster among them."""
        response = http.request(self._endpoint, "GET", path)
        http.raise_for_error(response)
        return json.loads(response.body)

    def answers(self) -> bool:
        try:
            self.ask("/v1/status")
        except http.MasterError:
            return False
        return True

    def output(self, job_id: int, attempt: int, rank: int, stream: str) -> Output:
        data, complete = bytearray(), False
        while True:
            query = f"stream={stream}&rank={rank}&attempt={attempt}&offset={len(data)}&limit={PIECE_B}"
            response = http.request(self._endpoint, "GET", f"/v1/jobs/{job_id}/output?{query}")
            http.raise_for_error(response)
            complete = response.headers.get("x-mgpu-complete") == "1"
            data += response.body
            if not response.body:
                return Output(bytes(data), complete)

    # --- breaking ---------------------------------------------------------------------------------------------------

    def process(self) -> Process | None:
        """The one that holds the lock, if it lives."""
        try:
            pid = int(Path(lock_path(self._cluster.state_dir)).read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return None
        found = read(pid)
        return found if found in self._with_database() else None

    def signal(self, number: signal.Signals) -> bool:
        process = self.process()
        if process is not None:
            send(process, number)
        return process is not None

    def count(self) -> int:
        """Processes that have the database open: more than one would be one too many."""
        found = [process for process in self._with_database() if alive(process)]
        if len(found) > 1:  # one may have ended while we looked for others
            found = [process for process in found if process in self._with_database()]
        self.most_at_once = max(self.most_at_once, len(found))
        return len(found)

    def _with_database(self) -> list[Process]:
        return [process for process in with_files_in(self._cluster.state_dir) if _has_open(process, str(self.database))]

    # --- looking into what it left ----------------------------------------------------------------------------------

    def audit(self) -> Counter[str]:
        with closing(self._open()) as database:
            return Counter(dict(database.execute("SELECT what, count(*) FROM audit GROUP BY what")))

    def integrity(self) -> str:
        """ "ok", or what is broken."""
        with closing(self._open()) as database:
            return "; ".join(row[0] for row in database.execute("PRAGMA integrity_check"))

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=30)


def _has_open(process: Process, path: str) -> bool:
    try:
        return any(str(entry.readlink()) == path for entry in Path(f"/proc/{process.pid}/fd").iterdir())
    except OSError:
        return False
