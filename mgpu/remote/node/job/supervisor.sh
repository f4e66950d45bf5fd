# The supervisor: the first of the two shells that watch over a job. It leads the session, passes the gate, has the runner
# started inside the leases, and sees to it that nothing is left at the end. It holds no lease itself: so the leases are
# free before `clean` says so.

# supervise DIR UUIDS GANG SHELL MODE WORKDIR OUT ERR LIMIT
supervise() {
  program=$MGPU_P
  mask=$MGPU_MASK
  nofork=$MGPU_F
  unset MGPU_P MGPU_MASK MGPU_F
  dir=$1
  trap : TERM INT HUP QUIT USR1 USR2
  read -r boot </proc/sys/kernel/random/boot_id
  ticks_of $$
  record pid "$$:$ticks:$boot:$MGPU_TOKEN" || exit 0
  gate=$$:$ticks:$boot
  exec 9<"$dir"
  if [ "$9" != - ]; then
    MGPU_P=$program MGPU_KEY=$MGPU_TOKEN env -u MGPU_TOKEN "$setsid" sh -c 'eval "$MGPU_P"; timer "$@"' mgpu-timer "$dir" 9<&- &
    timer=$!
  fi
  take_leases "$@"
  [ "$9" = - ] || kill "$timer" 2>/dev/null
  # one that came later, with a limit that the job did not begin with
  living timer && kill "$living" 2>/dev/null
  # the runner was killed, or a lease was not to be had
  uptime_now
  link_of exit || record exit "fail:supervisor:the job's supervising shell was killed:$uptime"
  exec 9<&-
  MGPU_KEY=$MGPU_TOKEN
  sweep "$$"
  finish
}

# finish: the last word about an attempt, once nothing of it is left
finish() {
  sizes=-
  if sizes_of; then
    # a later attempt goes on in the job's own files
    if [ -L "$dir/stdout" ] || [ -L "$dir/stderr" ]; then record sizes "$first,$second"; fi
    sizes=$first,$second,
  fi
  uptime_now
  record clean "$uptime"
  link_of stop
  why=${value:--}
  link_of exit
  event "ended $why $sizes $value"
}

# sizes_of -> first, second: how much this attempt has written to stdout and stderr; fails where a file is gone
sizes_of() {
  link_of sizes && first=${value%,*} && second=${value#*,} && return
  first=$(stat -L -c %s "$dir/stdout" "$dir/stderr" 2>/dev/null) || return
  second=${first##*[!0-9]}
  first=${first%%[!0-9]*}
  base_of stdout
  first=$((first > base ? first - base : 0))
  base_of stderr
  second=$((second > base ? second - base : 0))
}

# base_of stdout|stderr -> base, where in that file this attempt begins
base_of() {
  base=0
  link_of "$1.base" && base=$value
}
