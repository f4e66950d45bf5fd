# Records: what is written down about an attempt.
#
# These files are sets of functions; their order means nothing. `job/` is what a job's runner needs, `watch/` what else the
# shells need that watch over it, `serve/` answers requests.
#
# It needs a POSIX sh (dash, busybox, bash), coreutils, and util-linux's setsid and flock.
#
# Run directory of an attempt, $root/JOB.ATTEMPT (records are symlinks: atomic, and they need no data block on a full disk):
#   pid      -> PID:TICKS:BOOT:TOKEN  the once-only gate, made by the supervisor itself; or `fenced`
#   reaper   -> PID:TICKS             the process that ends the job, where one was needed
#   ready    -> UPTIME                prepared and waiting for `go` (several nodes)
#   go       -> run|abort             made by whoever comes first
#   started  -> PID:UPTIME:NOTICE     whose child the command is; NOTICE `home` = the wanted directory is not here
#                                     (an empty file of that name: it took too long, and never begins)
#   deadline -> UPTIME                re-read by the timer, so that the limit can be moved; whole seconds, rounded up
#   signal   -> [B:]NUMBER@SECONDS    to be sent so long before the deadline; B: to the job's first process alone
#   signalled -> UPTIME               it was, once
#   timer    -> PID:TICKS             the process that waits for the deadline, where there is or was one
#   stop     -> CANCEL|TIMEOUT|...    written before TERM; OOM: the kernel ended it for want of memory;
#                                     REQUEUE: the job itself wants to be queued again; PORT: somebody else listened
#                                     where its ranks were to meet
#   told     -> UPTIME                before the first signal of ours to a command that had not ended
#   exit     -> CODE:UPTIME           or `fail:CLASS:TEXT` where the command never ran
#   clean    -> UPTIME                nothing of the job is left on the node; UPTIME:own = and its exit is its own: a stop,
#                                     if there was one, came too late
#   append   -> 1                     the job's own files were begun by an earlier attempt
#   stdout.base, stderr.base -> SIZE  of such a file before this attempt: what follows is its output
#   sizes    -> OUT,ERR               how much was written in all; a later attempt may write on in the same files
#   tasks    -> PID PID ...           of several tasks of the command side by side: the first process of each
#   failed   -> CODE                  of the first of them that failed; the others are ended then
#   tty      -> /dev/pts/N            the terminal of a job that has one
#   spawn/                            what is asked for from other nodes, and done for them: core/launchers/spawning.py
#     ask.ID, answer.ID, wake.ID      until it is answered; the first line of an answer is the exit code
#     work.ID, begun.ID               until it has ended
#     place.1, place.2 -> DIR         rank 0's run directory, by its path there: a link to this one, for a shipped tree
#     taken.ID -> 1, by.ID -> PID:TICKS (who does it), worked.ID -> CODE, broken -> CODE (of the
#     last one, where a signal that was not ours ended it)
#   bin -> ../bin.MAY                 programs that its script finds, where it looks for some: bin.MAY/scontrol, for all jobs
#   script job stdout stderr step stdin eof fed wake (a pipe) work/ (a tree that was shipped)
#
# Variables are in small letters: an assignment to one that the login exports would change the job's environment.

# tool NAME -> tool, its path: a busybox that prefers its own applets lacks what is needed of these
tool() {
  tool=
  IFS=:
  for piece in $PATH; do
    if [ -x "$piece/$1" ]; then
      tool=$piece/$1
      break
    fi
  done
  unset IFS
}

uptime_now() { read -r uptime _ </proc/uptime; }

# link_of NAME -> value, the content of a record in $dir; fails where it is not there
link_of() {
  value=
  [ -L "$dir/$1" ] || return 1
  value=$(readlink "$dir/$1")
}

# record NAME CONTENT: first one wins
record() { ln -s "$2" "$dir/$1" 2>/dev/null; }

# wake [NAME]: whoever waits in $dir at the pipe of that name looks again. Nobody waits for it here: where a job has filled
# that pipe it takes nothing more
wake() {
  [ -p "$dir/${1-wake}" ] || return
  timeout 1 sh -c 'echo 1<>"$0"' "$dir/${1-wake}" </dev/null >/dev/null 2>&1 &
}

# event WORD...: a hint, where a job has not put a pipe in the file's place that would be waited for
event() { [ -p "${dir%/*}/events" ] || printf '%s\n' "${dir##*/} $*" >>"${dir%/*}/events"; } 2>/dev/null
