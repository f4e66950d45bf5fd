# The runner: the second of the two shells that watch over a job. Inside the chain of flock it prepares the job's world,
# runs the job in its foreground and records the exit. Descriptors of a job: 9 its run directory, the leases wherever flock
# put them, 3 and 4 (kept free of leases, as are 5 and 6) its output until it has opened that as 1 and 2.

# run DIR UUIDS GANG SHELL MODE WORKDIR OUT ERR LIMIT INPUT PORT
run() {
  gate=$MGPU_GATE
  mask=$MGPU_MASK
  locale=$MGPU_LOCALE
  unset MGPU_P MGPU_MASK MGPU_GATE MGPU_LOCALE MGPU_WATCH MGPU_NOFORK MGPU_MOST
  dir=$1
  trap : TERM INT HUP QUIT USR1 USR2
  enter "$5" "$6"
  tool "$4"
  [ -n "$tool" ] || tool sh
  umask "$mask"
  outputs "$7" "$8"
  open_input "${10}"
  if [ "${11}" != - ] && listens "${11}"; then fail port "port ${11}, where its ranks were to meet, is in use here"; fi
  [ "$3" = 1 ] && await_go
  [ -L "$dir/stop" ] && fail aborted "stopped before it began"
  leases_in_place "$2" || fail newcomer "the lease of $uuid was removed in between"
  uptime_now
  [ "$9" = - ] || record deadline $((${uptime%.*} + $9 + 1))
  if ! record started "$$:$uptime:$notice"; then
    [ -f "$dir/started" ] && fail aborted "stopped before it began"
    fail node "cannot record the start (disk full?)"
  fi
  event "started $uptime $notice $gate"
  oom_kills
  kills_before=$kills
  unset LC_ALL
  [ -z "$locale" ] || export LC_ALL="$locale"
  run_command
  export LC_ALL=C
  if [ $code = 137 ]; then
    oom_kills
    [ $kills -gt $kills_before ] && record stop OOM
  fi
  if [ $code != 0 ] && [ "${11}" != - ] && port_was_taken "${11}"; then record stop PORT; fi
  uptime_now
  # said to the supervisor too, which need not read it then; behind it a ? where it could not be written down
  if record exit "$code:$uptime"; then printf '%s' "$code:$uptime"; else printf '%s?' "$code:$uptime"; fi
  exit 0
}

# fail CLASS TEXT: of one line, and short enough for a record
fail() {
  uptime_now
  value=$(printf '%.1000s' "$2" | tr '\n' ' ')
  record exit "fail:$1:$value:$uptime"
  exit 0
}

# enter MODE DIR -> notice
enter() {
  notice=-
  case $1 in
    tree:*)
      unpack "${1#*:}"
      set -- must "$dir/work${2#.}"
      ;;
  esac
  printf 'entering the working directory %s' "$2" >"$dir/step" 2>/dev/null
  if [ -z "$2" ]; then
    cd 2>/dev/null || fail node "the home directory ${HOME-} cannot be entered"
  elif { [ "$1" = must ] || [ -d "$2" ]; } && cd "$2" 2>/dev/null; then
    :
  elif [ "$1" = must ]; then
    [ -d "$2" ] && fail node "working directory $2 cannot be entered"
    [ -e "$2" ] && fail directory "working directory $2 is not a directory"
    fail directory "working directory $2 does not exist"
  else
    # one that this account may not enter (/root of another machine's root) is as good as none
    notice=home
    cd 2>/dev/null || fail node "the home directory ${HOME-} cannot be entered"
  fi
  printf 'starting' >"$dir/step" 2>/dev/null
}

# outputs OUT ERR (where `true` makes a file: with `:`, a special builtin, a failure would end the shell): the job's own files if it asked for some, with the run directory pointing at them
outputs() {
  if [ -z "$1" ]; then
    { true >"$dir/stdout"; } 2>/dev/null || fail node "cannot write to $dir"
    exec 3>>"$dir/stdout"
  else
    own_file "$1" stdout
    exec 3>>"$value"
    ln -sf "$value" "$dir/stdout"
  fi
  if [ -z "$2" ] && [ -z "$1" ]; then
    { true >"$dir/stderr"; } 2>/dev/null || fail node "cannot write to $dir"
    exec 4>>"$dir/stderr"
  elif [ -z "$2" ] || [ "$2" = "$1" ]; then
    exec 4>&3
    true >"$dir/stderr"
  else
    own_file "$2" stderr
    exec 4>>"$value"
    ln -sf "$value" "$dir/stderr"
  fi
}

# own_file FILE stdout|stderr -> value, its full path. It is made empty, unless an earlier attempt has written there
own_file() {
  case $1 in /*) value=$1 ;; *) value=${PWD%/}/$1 ;; esac
  if [ -L "$dir/append" ]; then
    { true >>"$value"; } 2>/dev/null || fail directory "cannot write $value"
    record "$2.base" "$(stat -L -c %s "$value")"
  else
    { true >"$value"; } 2>/dev/null || fail directory "cannot write $value"
  fi
}

# listens PORT: somebody does, on this machine
listens() {
  value=$(printf '%04X' "$1")
  grep -qE "^ *[0-9]+: [0-9A-F]+:$value [0-9A-F:]+ 0A " /proc/net/tcp /proc/net/tcp6
} 2>/dev/null

# port_was_taken PORT: the command says so. Whoever came first may be gone again, so that is all there is to go by
port_was_taken() {
  value=$(tail -qc 65536 "$dir/stdout" "$dir/stderr")
  case $value in *[!0-9]"$1"[!0-9]*) ;; *) return 1 ;; esac
  case $value in *EADDRINUSE* | *[Aa]"ddress already in use"*) ;; *) return 1 ;; esac
} 2>/dev/null

# await_go: several nodes start together or not at all
await_go() {
  uptime_now
  give_up_at=$((${uptime%.*} + 300))
  # opened for both ways: for one alone it would wait for the other
  mkfifo -m 600 "$dir/wake" 2>/dev/null
  [ -p "$dir/wake" ] || fail node "cannot make a named pipe in $dir"
  value=$dir/wake
  exec 6<>"$value"
  record ready "$uptime"
  event "ready $uptime $gate"
  while ! link_of go; do
    [ -L "$dir/stop" ] && fail aborted "stopped before it began"
    uptime_now
    left=$((give_up_at - ${uptime%.*}))
    if [ $left -gt 0 ]; then
      timeout $left head -c 1 <&6 >/dev/null 2>&1
    else
      record go abort
    fi
  done
  exec 6<&-
  [ "$value" = run ] || fail aborted "the other nodes were not ready"
}

# oom_kills -> kills, how many processes of our control group the kernel has killed for want of memory, if it tells
oom_kills() {
  kills=0
  while IFS=: read -r _ piece value; do
    case $piece in
      '') value=/sys/fs/cgroup$value/memory.events ;;
      memory) value=/sys/fs/cgroup/memory$value/memory.oom_control ;;
      *) continue ;;
    esac
    { while read -r piece count; do [ "$piece" = oom_kill ] && kills=$((kills + count)); done <"$value"; } 2>/dev/null
  done </proc/self/cgroup
}
