# The timer: waits for a job's deadline, on the node itself, so that it holds also while no master is there.

# timer DIR: fires at the deadline, which may be moved while it sleeps (USR1 wakes it)
timer() {
  take_program
  dir=$1
  nap=
  trap '[ -z "$nap" ] || kill "$nap"; exit 0' TERM
  trap '[ -z "$nap" ] || kill "$nap"' USR1
  ticks_of $$
  ln -sfn "$$:$ticks" "$dir/timer" 2>/dev/null
  while [ ! -L "$dir/exit" ]; do
    if link_of deadline; then
      uptime_now
      left=$((value - ${uptime%.*}))
      if [ $left -le 0 ]; then
        wanted TIMEOUT && launch_reaper "$MGPU_KEY" 10
        exit 0
      fi
      if link_of signal && [ ! -L "$dir/signalled" ] && [ -L "$dir/started" ]; then
        if [ $left -le "${value##*@}" ]; then
          record signalled "$uptime" && warn "${value%@*}"
        else
          left=$((left - ${value##*@}))
        fi
      fi
      [ $left -gt 10 ] && left=10
    elif [ -L "$dir/started" ]; then
      left=10
    else
      left=1
    fi
    sleep $left &
    nap=$!
    wait $nap
    nap=
  done
}

# warn [B:|S:]NUMBER: send the signal to all processes of the job -> value, those; B: to the first one alone; S: not to the
# first one, where that is a shell which only waits for the rest
warn() {
  firsts
  case $1 in
    B:*) ;;
    *)
      beginning=$(printf '%s' "$value" | tr -s '\n' ' ')
      leader
      members "$leader"
      # CONT: by itself it has stopped as what runs on it did
      [ "${1#S:}" != 18 ] || carrier=
      [ -z "$carrier" ] || without "$carrier"
      case $1 in S:*) spare_shells ;; esac
      ;;
  esac
  # shellcheck disable=SC2086
  [ -z "$value" ] || kill "-${1#[BS]:}" $value 2>/dev/null
}

# firsts -> value, the process that the job began with, or those of its tasks; carrier, the one that carries its terminal,
# which is ours, as is the keeper of its stdin
firsts() {
  carrier=
  if link_of tasks; then
    # shellcheck disable=SC2086
    set -- $value
    link_of pid
    members "${value%%:*}" "$@" # those that live
    return
  fi
  link_of started
  children "${value%%:*}"
  [ -p "$dir/stdin" ] || return 0
  for piece in $value; do
    case $(tr '\0' '\n' <"/proc/$piece/cmdline" 2>/dev/null) in
      *'exec "$MGPU_TOOL" "$MGPU_SCRIPT"'*) carrier=$piece ;;
      *'eval "$MGPU_P"'*) without "$piece" ;;
    esac
  done
  [ -z "$carrier" ] || children "$carrier"
}

# children PID -> value
children() { value=$(grep -slE "\) [A-Za-z] $1 " /proc/[0-9]*/stat | tr -dc '0-9\n'); }

# without PID -> value without it
without() {
  rest=
  for member in $value; do
    [ "$member" = "$1" ] || rest="$rest $member"
  done
  value=${rest# }
}

# spare_shells -> value without the job's first process, if it is a shell and not all there is; of several tasks each that
# has something running
spare_shells() {
  if [ ! -L "$dir/tasks" ]; then
    spare_shell "${beginning%% *}"
    return
  fi
  for first in $beginning; do
    rest=$value
    children "$first"
    first=${value:+$first}
    value=$rest
    [ -z "$first" ] || spare_shell "$first"
  done
}

# spare_shell PID -> value without it, if it is a shell and not all there is
spare_shell() {
  { read -r name <"/proc/$1/comm"; } 2>/dev/null || return
  case $name in sh | bash | dash | ash | ksh* | mksh | zsh | busybox | fish | csh | tcsh) ;; *) return ;; esac
  all=$value
  without "$1"
  value=${value:-$all}
}
