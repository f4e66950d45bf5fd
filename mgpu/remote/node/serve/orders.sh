# Requests about jobs that are here: how they stand, go, stop, another time limit, clean up.

# records NAMES KEY...: a line `KEY NAME CONTENT` for each that is there
records() {
  names=$1
  shift
  paths=
  for key in "$@"; do
    for name in $names; do
      [ -L "$root/$key/$name" ] && paths="$paths $key/$name"
    done
  done
  # shellcheck disable=SC2086
  [ -z "$paths" ] || (cd "$root" && "$find" $paths -maxdepth 0 -printf '%h %f %l\n' 2>/dev/null)
}

# state KEY...: for each a line `KEY NAME VALUE` a record, `KEY alive 1`, `KEY size OUT ERR`, `KEY ask ID`; then the uptime and boot id
op_state() {
  # gates and who lives first: what these two have written when they are gone is there for the second look
  records pid "$@" | while IFS=' ' read -r key _ piece; do
    printf '%s pid %s\n' "$key" "$piece"
    leader_of "$piece"
    [ -n "$leader" ] && printf '%s alive 1\n' "$key"
  done
  records 'ready go started stop exit clean stuck deadline' "$@"
  for key in "$@"; do
    dir=$root/$key
    [ -f "$dir/stdout" ] && sizes_of && printf '%s size %s %s\n' "$key" "$first" "$second"
    [ -d "$dir/spawn" ] && asks "$key"
    [ -L "$dir/started" ] || { step_of && printf '%s step %s\n' "$key" "$step"; }
  done
  uptime_now
  read -r boot </proc/sys/kernel/random/boot_id
  end ok "$uptime" "$boot"
}

# unclaimed TOKEN: processes of an attempt live, and nothing is written down about it: somebody removed its run directory
unclaimed() {
  [ ! -L "$dir/pid" ] && [ ! -e "$dir/script" ] && grep -sqaz "^MGPU_TOKEN=$1\$" /proc/[0-9]*/environ
}

# bar: the name of the record `started` is taken by an empty file, so that the runner cannot make it. Of the two the first
# one wins, however closely they meet
bar() {
  set -C
  [ -L "$dir/started" ] || true >"$dir/started"
  set +C
  [ -f "$dir/started" ]
} 2>/dev/null

# stop KEY TOKEN REASON GRACE: fence what has not begun, end what has; START_HANGS ends only what has not
op_stop() {
  dir=$root/$1
  [ -d "$dir" ] || mkdir -p "$dir" 2>/dev/null
  if unclaimed "$2"; then
    read -r boot </proc/sys/kernel/random/boot_id
    uptime_now
    record started "0:$uptime:-"
    record pid "0:0:$boot:$2"
  fi
  if record pid fenced; then
    end ok fenced
    return
  fi
  if ! link_of pid; then
    end failed node "cannot lay a fence in $dir (disk full, or no home?)"
  elif [ "$value" = fenced ]; then
    end ok fenced
  elif [ "${value##*:}" != "$2" ]; then
    end failed token "$value"
  elif [ -L "$dir/clean" ] || [ "${value%":$boot:$2"}" = "$value" ]; then
    # or it is of an earlier boot, which is told by its gate
    end ok ended
  elif [ "$3" = START_HANGS ] && ! bar; then
    if [ -L "$dir/started" ]; then end ok begun; else end failed node "cannot write to $dir (disk full?)"; fi
  else
    wanted "$3"
    launch_reaper "$2" "$4"
    end ok stopping
  fi
}

# go KEY run|abort
op_go() {
  dir=$root/$1
  record go "$2" && wake
  link_of go
  end ok "$value"
}

# limit KEY TOKEN SECONDS|-: the deadline of what runs is so long after its start, or there is none
op_limit() {
  dir=$root/$1
  link_of pid
  if [ "${value##*:}" != "$2" ] || [ -L "$dir/exit" ] || ! link_of started; then
    end ok late
    return
  fi
  if [ "$3" = - ]; then
    rm -f "$dir/deadline"
  else
    value=${value#*:}
    ln -sfn $((${value%%.*} + $3 + 1)) "$dir/deadline" 2>/dev/null
  fi || {
    end failed node "cannot write to $dir (disk full?)"
    return
  }
  if living timer; then
    kill -USR1 "$living" 2>/dev/null
  elif [ "$3" != - ]; then
    watcher timer "$2" "$dir"
  fi
  end ok
}

# signal KEY TOKEN [B:|S:]NUMBER: as `warn` says
op_signal() {
  dir=$root/$1
  if ! link_of pid || [ "${value##*:}" != "$2" ] || [ -L "$dir/exit" ]; then
    end ok ended
  elif [ ! -L "$dir/started" ]; then
    end ok early
  elif (MGPU_KEY=$2; warn "$3"; [ -n "$value" ]); then
    end ok sent
  else
    end ok ended
  fi
}

# clean KEY...: what is left is a tombstone (late bytes must not start it again)
op_clean() {
  for key in "$@"; do
    dir=$root/$key
    if [ -d "$dir/work" ] && ! rm -rf "$dir/work" 2>/dev/null; then
      chmod -R u+rwX "$dir/work" && rm -rf "$dir/work" # a job may lock its own folders
    fi 2>/dev/null
    unplace
    rm -rf "$dir"/script* "$dir"/job* "$dir"/stdout* "$dir"/stderr* "${dir:?}/bin" "$dir/append" "$dir/sizes" "$dir"/signal* \
      "$dir/step" "$dir/ready" "$dir/go" "$dir/started" \
      "$dir/deadline" "$dir/timer" "$dir/stop" "$dir/told" "$dir/reaper" "$dir/stuck" \
      "$dir/stdin" "$dir/eof" "$dir/fed" "$dir/pump" "$dir/tty" "$dir/wake" "$dir/spawn" "$dir/tasks" "$dir/failed"
  done
  forget_old
  short_events
  end ok
}

# forget_old: the oldest tombstones, a few at a time. After a week no request can be on its way any more: the kernels give
# a connection up within minutes, and a shell that has not read for so long was stopped by hand
forget_old() {
  "$find" "$root" -mindepth 1 -maxdepth 1 -type d -name '[1-9]*.[1-9]*' -mmin +10080 2>/dev/null | {
    left=20
    while [ $left -gt 0 ] && IFS= read -r dir; do
      is_tombstone || continue
      erase
      left=$((left - 1))
    done
  }
}
