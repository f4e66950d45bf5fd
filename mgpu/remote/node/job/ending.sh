# Ending a job: which processes are its, and how all of them go.

# members SUPERVISOR -> value, pids of the job's processes but for those that watch over it. Three nets: the session, the
# token in the environment, the inherited descriptor of the run directory; a process may have left any of them.
# Another's processes cannot be signalled anyway; a session counts only while its leader is ours.
members() {
  found=
  if [ -n "$1" ]; then
    found=$(grep -slE "\\) [A-Za-z] [0-9]+ [0-9]+ $1 " /proc/[0-9]*/stat)
  fi
  found="$found
$(grep -slaz "^MGPU_TOKEN=$MGPU_KEY\$" /proc/[0-9]*/environ)
$("$find" /proc/[0-9]*/fd -lname "$(cd -P "$dir" && pwd)" 2>/dev/null)"
  keep=" $$ $1 "
  if [ -n "$1" ] && link_of started; then
    parent=${value%%:*}
    while [ -n "$parent" ] && [ "$parent" -gt 1 ] && [ "$parent" != "$1" ]; do
      keep="$keep$parent "
      parent_of "$parent" || break
    done
  fi
  value=
  for member in $found; do
    member=${member#/proc/}
    member=${member%%/*}
    case "$keep" in *" $member "*) continue ;; esac
    ticks_of "$member" || continue
    keep="$keep$member "
    value="$value$member "
  done
}

# sweep SUPERVISOR: end what a finished job left behind; TERM, a second, KILL until none is left
sweep() {
  members "$1"
  [ -z "$value" ] && return
  event "leftover $value"
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

# launch_reaper TOKEN GRACE: one at a time
launch_reaper() {
  living reaper && return
  MGPU_P=$program MGPU_KEY=$1 "$setsid" -f sh -c 'eval "$MGPU_P"; reap "$@"' mgpu-reap "$dir" "$2" </dev/null >/dev/null 2>&1
}

# reap DIR GRACE: TERM, grace, KILL, repeated until none is left
reap() {
  unset MGPU_P
  dir=$1
  ticks_of $$
  ln -sfn "$$:$ticks" "$dir/reaper" 2>/dev/null
  uptime_now
  kill_at=$((${uptime%.*} + $2 + 1))
  told=
  nap=0.02
  while [ -d "$dir" ]; do
    leader
    [ -L "$dir/clean" ] && exit 0
    begun=
    [ -L "$dir/started" ] && begun=1
    members "$leader"
    [ -z "$value" ] && [ -z "$leader" ] && break
    uptime_now
    if [ "${uptime%.*}" -ge $kill_at ]; then
      # a runner that hangs before its job began has to go too
      [ -L "$dir/started" ] || [ -L "$dir/exit" ] || value="$value $leader"
      # shellcheck disable=SC2086
      kill -KILL $value 2>/dev/null
      nap=0.3
      if [ "${uptime%.*}" -ge $((kill_at + 120)) ]; then
        record stuck "$value"
        nap=5
      fi
    elif [ -z "$told" ] && [ -n "$value" ]; then
      # once to each job: what it starts in order to end well is not disturbed. Not counted while there is only the runner
      # (which takes no notice), about to begin
      # shellcheck disable=SC2086
      kill -TERM $value 2>/dev/null
      told=$begun
    fi
    sleep $nap
    [ $nap = 0.02 ] && nap=0.1
  done
  step=
  { read -r step <"$dir/step"; } 2>/dev/null
  uptime_now
  if [ -L "$dir/started" ]; then
    record exit "fail:supervisor:the job's supervising shell was killed:$uptime"
  else
    record exit "fail:node:it hung while $step:$uptime"
  fi
  finish
}
