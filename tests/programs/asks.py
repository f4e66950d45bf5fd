"""Asks for all that `mgpu.Client` is used for, of the master that the environment names; prints what came of it."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

from mgpu import Client, MasterError

with Client() as client:
    nodes = {node.node_id: node.state for node in client.nodes()}
    job = client.submit("echo out; echo err >&2; exit 3", gpus=1)
    lines = sorted([line.kind, line.text] for line in client.lines(job))
    ended = client.wait(job)
    ran = client.run(["cat"], input=b"given", capture_output=True)
    with ThreadPoolExecutor(3) as pool:  # side by side
        outputs = list(pool.map(lambda n: client.run(["echo", str(n)], capture_output=True).stdout.decode(), range(3)))
    long = client.submit(["sleep", "1000"])
    cancelled = client.cancel(long)
    try:
        client.job(99_999)
        refused = ""
    except MasterError as error:
        refused = error.code
    found = {
        "nodes": nodes,
        "lines": lines,
        "exit_status": ended.exit_status,
        "stdout": ran.stdout.decode(),
        "outputs": outputs,
        "cancelled": cancelled == [long.job_id] and client.wait(long).state == "CANCELLED",
        "refused": refused,
    }
sys.stdout.write(json.dumps(found))
