# Ending a job: which processes are its, and how all of them go.

# newborn -> newborn, what lives of all that began on this machine since this shell did; fails where that cannot be told.
# The kernel gives out numbers in order, and begins anew only after the last: so whatever descends from this shell, in
# whatever session, environment and guise, has one of those that came after its own. It answers only where they cannot have
# gone round (no machine makes half a million processes a second), where they are few, and where no more began meanwhile.
newborn() {
  newborn=
  uptime_now
  [ -n "$born_at" ] && [ -n "$most" ] && hundredths || return
  [ $((hundredths - born_at + 1)) -le $((most / 5000)) ] || return
  last=$$
  for round in 1 2 3 4; do
    : & # its number is the last one that was given out
    piece=$last
    last=$!
    wait "$last"
    [ "$last" -gt $piece ] && [ "$last" -le $((piece + 1000)) ] || return
    while [ $((piece += 1)) -lt "$last" ]; do
      [ -d "/proc/$piece" ] && newborn="$newborn $piece"
    done
    read -r _ _ _ _ value </proc/loadavg
    [ "$value" = "$last" ] && return
  done
  return 1
}

# members SUPERVISOR [PID...] -> value, pids of the job's processes (among those, or all that there are) but for those that
# watch over it and, once it has begun, their tools: what these are to tell is not to be lost. Three nets: the session, the
# token in the environment, the inherited descriptor of the run directory, 9; a process may have left any of them. Another's
# processes cannot be signalled anyway; a session counts only while its leader is ours.
members() {
  supervisor=$1
  shift
  files='/proc/[0-9]*/environ /proc/[0-9]*/stat'
  places='/proc/[0-9]*/fd/9'
  if [ $# -gt 0 ]; then
    files=
    places=
    for piece in "$@"; do
      files="$files /proc/$piece/environ /proc/$piece/stat"
      places="$places /proc/$piece/fd/9"
    done
  fi
  value="^MGPU_TOKEN=$MGPU_KEY\$"
  # an environment cannot look like that: a name comes first in it
  [ -z "$supervisor" ] || value="$value|^[0-9]+ \\(.*\\) [A-Za-z] [0-9]+ [0-9]+ $supervisor "
  # shellcheck disable=SC2086
  found=$(grep -slazE "$value" $files; cd -P "$dir" && "$find" $places -lname "$PWD" 2>/dev/null)
  value=
  [ -n "$found" ] || return 0
  keep=" $$ $supervisor "
  runner=
  if [ -n "$supervisor" ] && link_of started; then
    runner=${value%%:*}
    parent=$runner
    while [ -n "$parent" ] && [ "$parent" -gt 1 ] && [ "$parent" != "$supervisor" ]; do
      keep="$keep$parent "
      parent_of "$parent" || break
    done
  fi
  value=
  for member in $found; do
    case $member in */fd/9) inherited "${member%/fd/9}" || continue ;; esac
    member=${member#/proc/}
    member=${member%%/*}
    case "$keep" in *" $member "*) continue ;; esac
    ticks_of "$member" || continue
    [ -n "$runner" ] && is_tool && continue
    keep="$keep$member "
    value="$value$member "
  done
}

# is_tool: that process, of this $stat, comes from the supervisor, itself or by one of its subshells, and not from the runner,
# as all of the job does. What a job leaves behind is never given to the supervisor. In the quick half it is the runner too,
# and has tools only once the command has ended and it has become a shell
is_tool() {
  parent=${stat#* }
  parent=${parent%% *}
  if [ "$runner" = "$supervisor" ]; then
    { read -r name <"/proc/$supervisor/comm"; } 2>/dev/null && [ "$name" = sh ] || return
  else
    case " $runner $value" in *" $parent "*) return 1 ;; esac
  fi
  [ "$parent" = "$supervisor" ] && return
  [ "$parent" -gt 1 ] && parent_of "$parent" && [ "$parent" = "$supervisor" ]
}

# inherited /proc/PID: descriptor 9 comes from us. Whoever opened the run directory to look into it (rm, du, a backup) has it
# closed where it starts a program: 02000000 among the flags
inherited() {
  flags=
  while read -r piece flags; do
    [ "$piece" != flags: ] || break
  done <"$1/fdinfo/9"
  case $flags in *[2367]??????) return 1 ;; esac
} 2>/dev/null

# sweep SUPERVISOR [PID...]: end what a finished job left behind (it is among those); TERM, a second, KILL until none is left
sweep() {
  members "$@"
  [ -z "$value" ] && return
  # no surprise where somebody asked for its end, nor of several tasks where one that failed ends the others
  [ -L "$dir/failed" ] || [ -L "$dir/stop" ] || event "leftover $value"
  # shellcheck disable=SC2086
  kill -TERM $value 2>/dev/null
  round=0
  nap=0.1
  while :; do
    sleep $nap
    members "$1"
    [ -z "$value" ] && return
    # shellcheck disable=SC2086
    [ $round -ge 10 ] && kill -KILL $value 2>/dev/null
    round=$((round + 1))
    if [ $round -ge 200 ]; then
      record stuck "$value"
      nap=5
    fi
  done
}

# wanted REASON: it is written down that the job is to be ended; fails where that was so before. Where no file can be made
# any more, one that is there takes the name: its end is not taken for its own then
wanted() {
  if record stop "$1"; then
    wake
    return 0
  fi
  [ ! -L "$dir/stop" ] && [ ! -e "$dir/stop" ] && mv -f "$dir/step" "$dir/stop" 2>/dev/null
}

# launch_reaper TOKEN GRACE: one at a time
launch_reaper() {
  living reaper && return
  watcher reap "$1" "$dir" "$2"
}

# reap DIR GRACE [PIDS]: TERM, but to those who were told so already, grace, KILL, repeated until none is left. The grace
# begins with TERM: on a busy node it takes seconds to find whom to tell
reap() {
  take_program
  dir=$1
  before=" ${3-} "
  ticks_of $$
  ln -sfn "$$:$ticks" "$dir/reaper" 2>/dev/null
  uptime_now
  kill_at=$((${uptime%.*} + $2 + 1))
  told=
  said=
  nap=0.02
  while [ -d "$dir" ]; do
    leader
    [ -L "$dir/clean" ] && exit 0
    begun=
    [ -L "$dir/started" ] && begun=1
    members "$leader"
    [ -z "$value" ] && [ -z "$leader" ] && break
    # a job may have stopped those that watch over it
    # shellcheck disable=SC2086
    [ -n "$value" ] || kill -CONT $keep 2>/dev/null
    uptime_now
    # before the first signal that may reach the command: an exit that is recorded without it is the command's own
    [ -z "$value" ] || [ ! -L "$dir/started" ] || [ -L "$dir/exit" ] || [ -L "$dir/told" ] || record told "$uptime"
    if [ -z "$told" ] && [ -n "$value" ] && { [ -n "$begun" ] || [ "${uptime%.*}" -lt $kill_at ]; }; then
      # once to each job: what it starts in order to end well is not disturbed. Not counted while there is only the runner
      # (which takes no notice), about to begin
      for member in $value; do
        case "$before" in *" $member "*) ;; *) kill -TERM "$member" 2>/dev/null ;; esac
      done
      told=$begun
      [ -z "$begun" ] || kill_at=$((${uptime%.*} + $2 + 1))
    elif [ "${uptime%.*}" -ge $kill_at ]; then
      # a runner that hangs before its job began has to go too
      [ -L "$dir/started" ] || [ -L "$dir/exit" ] || value="$value $leader"
      # shellcheck disable=SC2086
      kill -KILL $value 2>/dev/null
      nap=0.3
      if [ "${uptime%.*}" -ge $((kill_at + 120)) ]; then
        record stuck "$value"
        nap=5
      fi
    fi
    sleep $nap
    [ $nap = 0.02 ] && nap=0.1
  done
  killed
  finish
}

# step_of -> step, what its start is at; not by `read`: a job may have put there what it likes, without any end of a line
step_of() {
  step=$([ ! -f "$dir/step" ] || head -c 1000 "$dir/step") 2>/dev/null
  step=${step%%"
"*}
}

# killed: the exit of a job whose runner is gone and has not written it. Before the command began that is trouble of the
# node: the runner was still at `step`, where we ended it if it took too long
killed() {
  step_of
  uptime_now
  if [ -L "$dir/started" ]; then
    record exit "fail:supervisor:the job's supervising shell was killed:$uptime"
  elif [ -L "$dir/stop" ]; then
    record exit "fail:node:it hung while $step:$uptime"
  else
    record exit "fail:node:it was killed while $step:$uptime"
  fi
}
