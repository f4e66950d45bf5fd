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
  case $1 in
    B:*) firsts ;;
    S:*) leader; members "$leader"; spare_shell ;;
    *) leader; members "$leader" ;;
  esac
  # shellcheck disable=SC2086
  [ -z "$value" ] || kill "-${1#[BS]:}" $value 2>/dev/null
}

# firsts -> value, the process that the job began with
firsts() {
  link_of started
  value=$(grep -slE "\) [A-Za-z] ${value%%:*} " /proc/[0-9]*/stat | tr -dc '0-9\n')
}

# spare_shell -> value without the first process, if it is a shell and not all there is
spare_shell() {
  all=$value
  firsts
  first=$(printf '%s' "$value" | tr -s '\n' ' ')
  value=$all
  { read -r name <"/proc/${first%% *}/comm"; } 2>/dev/null || return
  case $name in sh | bash | dash | ash | ksh* | mksh | zsh | busybox | fish | csh | tcsh) ;; *) return ;; esac
  rest=
  for member in $all; do
    [ "$member" = "${first%% *}" ] || rest="$rest $member"
  done
  value=${rest:-$all}
}
