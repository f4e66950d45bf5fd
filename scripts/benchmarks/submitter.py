"""One process that submits again and again through the client, as a script would.

`python -m scripts.benchmarks.submitter CONFIG STATE_DIR COUNT NAME [GPUS]` prints when it began and ended, and of each
job its number and how long it took. Without GPUS the jobs are held: what is measured is that the master takes them.
"""

from __future__ import annotations

import json
import os
import sys
from time import monotonic

from mgpu.client.locate import locate
from mgpu.client.master import Master


def main(config: str, state_dir: str, count: str, name: str, gpus: str = "") -> None:
    master = Master(locate(config, state_dir, None, os.environ, lambda _config: ""))
    what = {"gpus": gpus} if gpus else {"hold": True}
    told = []
    start = monotonic()
    for number in range(int(count)):
        began = monotonic()
        body = {
            "request_id": os.urandom(16).hex(),
            "kind": "batch",
            "command": {"form": "argv", "words": ["true"]},
            "options": {"job_name": f"{name}-{number}", **what},
            "env": {},
            "cwd": "/",
            "virtual_env": "",
        }
        told.append((master.call("POST", "/v1/jobs", body)["job_id"], monotonic() - began))
    json.dump({"began": start, "ended": monotonic(), "jobs": told}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
