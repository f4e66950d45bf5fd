# Programs and processes: which is which, and whether it still is.

# tools -> setsid, flock, find
tools() {
  tool setsid
  setsid=$tool
  tool flock
  flock=$tool
  tool find
  find=$tool
}

# take_program -> program (what the runner needs), watch (what else those need that watch over a job); never the job's to see
take_program() {
  program=$MGPU_P
  watch=$MGPU_WATCH
  unset MGPU_P MGPU_WATCH
}

# watcher timer|reap TOKEN DIR [GRACE]: one more that watches, in a session of its own
watcher() {
  name=$1
  key=$2
  shift 2
  MGPU_P=$program MGPU_WATCH=$watch MGPU_KEY=$key "$setsid" -f \
    sh -c "eval \"\$MGPU_P;\$MGPU_WATCH\"; tools; $name \"\$@\"" "mgpu-$name" "$@" </dev/null >/dev/null 2>&1
}

# hundredths -> hundredths, of a second since the boot; fails where that cannot be told. Of $uptime
hundredths() {
  case $uptime in 0* | *[!0-9.]* | *.*.*) return 1 ;; *.[0-9][0-9]) ;; *) return 1 ;; esac
  hundredths=${uptime%.*}${uptime#*.}
}

# stat_of PID -> stat, from its state on; the name before that may hold anything, also a newline
stat_of() {
  stat=
  [ -n "$1" ] || return 1
  { while read -r piece; do stat="$stat $piece"; done <"/proc/$1/stat"; } 2>/dev/null || return 1
  stat=${stat##*) }
}

# ticks_of PID -> ticks, the start time in clock ticks since boot; fails where no such process lives (zombies do not)
ticks_of() {
  ticks=
  stat_of "$1" || return 1
  case $stat in '' | Z* | X*) return 1 ;; esac
  # shellcheck disable=SC2086
  set -- $stat
  ticks=${20}
}

# parent_of PID -> parent
parent_of() {
  stat_of "$1"
  parent=${stat#* }
  parent=${parent%% *}
}

# living NAME -> living, the pid in a record PID:TICKS if it is still that process
living() {
  link_of "$1" || return
  living=${value%%:*}
  ticks_of "$living" && [ "$ticks" = "${value#*:}" ]
}

# leader -> leader, the supervisor's pid if it is still that process, else empty
leader() {
  link_of pid
  leader_of "$value"
}

# leader_of PID:TICKS:... -> leader
leader_of() {
  value=$1
  leader=${value%%:*}
  value=${value#*:}
  ticks_of "$leader" && [ "$ticks" = "${value%%:*}" ] && return
  leader=
}
