"""Where the time of one `srun --gpus 1 -- COMMAND` goes, once its own program has started."""

from __future__ import annotations

import json
import select
from time import monotonic, time

from mgpu.client.job_stream import HEAD
from mgpu.client.websocket import BINARY, WebSocket
from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.measure import Row, Series

# in the order in which they come; each counts from the moment before the submission is sent
STAGES = {
    "submitted": "the master has answered the submission",
    "placed": "GPUs are given out and stored",
    "began": "the job's first command runs on the node (its own stamp)",
    "running": "the master knows that it runs",
    "output": "its output is here",
    "end": "its end is here: process tree gone, output complete, GPU free",
}


def stages(cluster: Cluster, repeats: int) -> list[Row]:
    """The same requests as srun's, sent from one warm process."""
    series = {stage: Series() for stage in STAGES}
    for number in range(repeats + 1):
        for stage, moment in one(cluster).items():
            if number:  # the first is for warmth
                series[stage].add(moment)
    return [Row(f"from submission until {text}", series[stage].values) for stage, text in STAGES.items()]


def one(cluster: Cluster, **options: str) -> dict[str, float]:
    """Moments in seconds. The node shares this machine's clock."""
    began, wall_began = monotonic(), time()
    job_id = cluster.submit("date", "+%s.%N", kind="srun", **options)
    moments = {"submitted": monotonic() - began}
    stream = WebSocket(cluster.endpoint, f"/v1/jobs/{job_id}/stream?stdout=0&stderr=0")
    try:
        while "end" not in moments:
            if not stream.buffered():
                select.select([stream.fileno()], [], [])
            message = stream.receive()
            if message is None:
                continue
            opcode, payload = message
            moment = monotonic() - began
            if opcode == BINARY:
                moments.setdefault("output", moment)
                moments["began"] = float(payload[HEAD.size :]) - wall_began
                continue
            event = json.loads(payload)
            if event["event"] == "end":
                moments["end"] = moment
            elif event["event"] == "state" and event["job"]["allocation"]:
                moments.setdefault("placed", moment)
                if event["job"]["allocation"][0]["state"] != "STARTING":
                    moments.setdefault("running", moment)
    finally:
        stream.close()
    return moments
