"""An array from the script's own lines to the last of its tasks."""

from __future__ import annotations

import re
from pathlib import Path

from tests.end_to_end.cluster import Cluster, until

SCRIPT = """\
#!/bin/sh
#SBATCH --gres=gpu:1 --array=1-9:2%2 -J sweep -w node001
#MGPU -D /tmp -o out-%A_%a.txt
echo "$MGPU_ARRAY_INDEX of $SLURM_ARRAY_JOB_ID, $SLURM_ARRAY_TASK_COUNT in all" \
"$SLURM_ARRAY_TASK_MIN-$SLURM_ARRAY_TASK_MAX:$SLURM_ARRAY_TASK_STEP" "$MARK"
[ $SLURM_ARRAY_TASK_ID = 1 ] || while [ ! -e go-$SLURM_ARRAY_JOB_ID ]; do sleep 0.05; done
[ $SLURM_ARRAY_TASK_ID != 3 ]
"""


def test_an_array_of_a_script(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "sweep.sh"
    script.write_text(SCRIPT)
    array = cluster.submit("--export", "MARK=here", str(script))
    for task in (f"{array}_3", f"{array}_5"):
        until("two run at once", lambda task=task: cluster.job(task)["state"] == "RUNNING")
    rows = [line.split() for line in cluster("queue").lines if "sweep" in line]
    rest = (f"{array}_[7-9:2%2]", "PENDING")
    assert [(row[0], row[3]) for row in rows] == [rest, (f"{array}_3", "RUNNING"), (f"{array}_5", "RUNNING")]
    assert "2 of its tasks run, and no more may at once" in cluster("why", f"{array}_9").out
    assert cluster("cancel", f"{array}_9").out == f"Cancelled job {array}_9\n"
    on_its_node = ("srun", "-Q", "-G", 0, "-w", "node001", "-D", "/tmp")
    cluster(*on_its_node, "touch", f"go-{array}")
    shown = cluster.await_job(array, "FAILED")
    assert shown["tasks"] == {"COMPLETED": 3, "FAILED": 1, "CANCELLED": 1}
    assert shown["detail"] == "3 COMPLETED, 1 FAILED, 1 CANCELLED"
    assert cluster.output(f"{array}_5") == f"5 of {array}, 5 in all 1-9:2 here\n"
    written = cluster(*on_its_node, "cat", f"out-{array}_7.txt").out
    assert written == f"7 of {array}, 5 in all 1-9:2 here\n"
    assert shown["exit_code"] == 1
    assert cluster("submit", "-W", "-G", 0, "-a", "1-3", "exit $MGPU_ARRAY_INDEX", check=False).code == 3
    ended = [line.split()[0] for line in cluster("history").lines if re.match(rf" *{array}_", line)]
    assert sorted(ended) == [*(f"{array}_{index}" for index in (1, 3, 5, 7)), f"{array}_[9]"]
