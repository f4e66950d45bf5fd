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

# warn [B:]NUMBER: send the signal
warn() {
  case $1 in
    B:*) link_of started; value=$(grep -slE "\) [A-Za-z] ${value%%:*} " /proc/[0-9]*/stat | tr -dc '0-9\n') ;;
    *) leader; members "$leader" ;;
  esac
  # shellcheck disable=SC2086
  [ -z "$value" ] || kill "-${1#B:}" $value 2>/dev/null
}
