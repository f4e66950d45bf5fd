"""mgpu itself: the command once on each node, or so many times as was asked for, side by side.

A task is a process of the command with a rank of its own, in the job's session. They are the parts of a pipeline that
run in the shell's foreground: what a shell starts with `&` ignores SIGINT for good. The last part hears how each of
them ends; at the first that fails it ends the shells that wait for the others, and so the script, and what is left is
the supervisor's to sweep.
"""

from __future__ import annotations

from collections.abc import Sequence

from mgpu.core.gang import Gang
from mgpu.core.model import Command, CommandForm
from mgpu.core.shelltext import become, quote


def settle(command: Command, sizes: Sequence[int]) -> Command:
    return command


def variables(gang: Gang) -> dict[str, str]:
    """Where mgpu starts no ranks, none of those by which a library takes itself for one."""
    tasks = gang.job.spec.tasks_per_node
    if tasks is None:
        return own_ranks(gang)
    nodes = len(gang.parts)
    shown = f"{tasks}(x{nodes})" if nodes > 1 else str(tasks)
    first = _of_task(gang, tasks, "0") if tasks == 1 else {}
    share = gang.job.spec.gpus_per_task
    return first | {
        **({"SLURM_GPUS_PER_TASK": str(share)} if share else {}),
        "SLURM_NTASKS": str(tasks * nodes),
        "SLURM_NPROCS": str(tasks * nodes),
        "SLURM_NTASKS_PER_NODE": str(tasks),
        "SLURM_TASKS_PER_NODE": shown,
        "SLURM_STEP_NUM_TASKS": str(tasks * nodes),
        "SLURM_STEP_TASKS_PER_NODE": shown,
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_STEP_NODELIST": gang.reached,
        "WORLD_SIZE": str(tasks * nodes),
        "LOCAL_WORLD_SIZE": str(tasks),
        "NODE_RANK": str(gang.part.rank),
    }


def ending(gang: Gang) -> str:
    command, tasks = gang.job.spec.command, gang.job.spec.tasks_per_node
    if tasks is None or tasks == 1:
        return become(command)
    # one that ends in the middle of something swallows nothing of ours
    runs = f"eval {quote(command.words[0])}" if command.form is CommandForm.SHELL else become(command)
    others = "".join(f" | mgpu_task {task} </dev/null" for task in range(1, tasks))
    return "\n".join(
        [
            _SET_ASIDE,
            f"mgpu_tasks={tasks} mgpu_first={gang.part.rank * tasks} mgpu_node={quote(gang.part.node)}",
            f"mgpu_share={gang.job.spec.gpus_per_task or ''}",
            f"mgpu_run() {{\n{runs}\n}}",
            _SIDE_BY_SIDE,
            f"{{ mgpu_task 0{others}; }} 5>&1 | mgpu_watch",
            "exit",
        ]
    )


def own_ranks(gang: Gang) -> dict[str, str]:
    """For whoever starts ranks on several nodes, one a GPU."""
    if not gang.several:
        return {}
    return {
        "NODE_RANK": str(gang.part.rank),
        "WORLD_SIZE": str(gang.gpus or len(gang.parts)),
        "LOCAL_WORLD_SIZE": str(len(gang.part.uuids) or 1),
    }


def _of_task(gang: Gang, tasks: int, task: str) -> dict[str, str]:
    rank = str(gang.part.rank * tasks + int(task))
    return {"SLURM_PROCID": rank, "SLURM_LOCALID": task, "RANK": rank, "LOCAL_RANK": task}


# What a setup left set is the command's alone.
_SET_ASIDE = """case $- in *e*) mgpu_e=-e ;; *) mgpu_e=+e ;; esac
case $- in *a*) mgpu_a=-a ;; *) mgpu_a=+a ;; esac
set +e +a"""

# Signals are the tasks' alone, the shells around them live on. The numbers that they tell the last one are those of the
# shells that wait, and of the tasks.
_SIDE_BY_SIDE = r"""exec 3>&1 4>&2 2>/dev/null
trap '' 1 2 3 10 12 13 14 15 24
mgpu_task() {
  IFS=' ' read -r mgpu_shell mgpu_value </proc/self/stat
  echo "shell $mgpu_shell" >&5
  (
    trap - 1 2 3 10 12 13 14 15 24
    IFS=' ' read -r mgpu_pid mgpu_value </proc/self/stat
    echo "began $1 $mgpu_pid" >&5
    export SLURM_LOCALID="$1" LOCAL_RANK="$1" SLURM_PROCID=$((mgpu_first + $1)) RANK=$((mgpu_first + $1))
    if [ -n "$mgpu_share" ]; then
      mgpu_value=$(($1 * mgpu_share + 1))-$((($1 + 1) * mgpu_share))
      CUDA_VISIBLE_DEVICES=$(echo "$CUDA_VISIBLE_DEVICES" | cut -d , -f $mgpu_value)
    fi
    exec >&3 2>&4 3>&- 4>&- 5>&-
    set $mgpu_e $mgpu_a
    unset mgpu_e mgpu_a mgpu_share mgpu_tasks mgpu_first mgpu_node mgpu_shell mgpu_pid mgpu_value
    mgpu_run
  )
  # where nobody hears that any more, nobody would end the others
  echo "ended $1 $? $mgpu_shell" >&5 || kill -KILL $$
}
mgpu_watch() {
  IFS=' '
  mgpu_shells=' ' mgpu_pids='' mgpu_known=0 mgpu_begun=0 mgpu_ended=0 mgpu_code=0
  while IFS=' ' read -r mgpu_what mgpu_task mgpu_value mgpu_shell; do
    case $mgpu_what in
      shell) mgpu_shells="$mgpu_shells$mgpu_task " mgpu_known=$((mgpu_known + 1)) ;;
      began)
        mgpu_pids="$mgpu_pids $mgpu_value" mgpu_begun=$((mgpu_begun + 1))
        [ $mgpu_begun != $mgpu_tasks ] || ln -s "${mgpu_pids# }" "${0%/*}/tasks"
        ;;
      ended)
        mgpu_ended=$((mgpu_ended + 1))
        mgpu_shells="${mgpu_shells%% $mgpu_shell *} ${mgpu_shells#* $mgpu_shell }"
        [ $mgpu_code != 0 ] || [ "$mgpu_value" = 0 ] || mgpu_code=$mgpu_value mgpu_failed=$mgpu_task
        ;;
    esac
    # whoever is being ended has its time for it
    [ $mgpu_code = 0 ] || [ $mgpu_known != $mgpu_tasks ] || [ -L "${0%/*}/stop" ] || break
  done
  if [ $mgpu_code = 0 ]; then
    [ $mgpu_ended = $mgpu_tasks ] || exit 137 # a shell of ours was killed: nobody knows how its task ended
  elif [ $mgpu_ended != $mgpu_tasks ]; then
    mgpu_failed="task $((mgpu_first + mgpu_failed)) on $mgpu_node ended with $mgpu_code"
    echo "mgpu: $mgpu_failed: the other tasks there are ended too" >&4
    ln -s $mgpu_code "${0%/*}/failed"
    kill -KILL $mgpu_shells
  fi
  exit $mgpu_code
}"""
