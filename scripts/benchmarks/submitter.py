"""One process that submits again and again through the Python API, as a script would.

`python -m scripts.benchmarks.submitter CONFIG STATE_DIR COUNT NAME [GPUS]` prints when it began and ended, and of each
job its number and how long it took. Without GPUS the jobs are held: what is measured is that the master takes them.
"""

from __future__ import annotations

import json
import sys
from time import monotonic
from typing import Any

from mgpu import Client


def main(config: str, state_dir: str, count: str, name: str, gpus: str = "") -> None:
    what: dict[str, Any] = {"gpus": int(gpus)} if gpus else {"hold": True}
    told = []
    with Client(config=config, state_dir=state_dir) as client:
        client.nodes()  # the way to the master stands
        start = monotonic()
        for number in range(int(count)):
            began = monotonic()
            job = client.submit(["true"], job_name=f"{name}-{number}", **what)
            told.append((job.job_id, monotonic() - began))
        ended = monotonic()
    json.dump({"began": start, "ended": ended, "jobs": told}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
