# The supervisor: the first of the two shells that watch over a job. It leads the session, passes the gate, has the runner
# started inside the leases, and sees to it that nothing is left at the end. It holds no lease itself: so the leases are
# free before `clean` says so.

# prepare DIR
prepare() {
  take_program
  mask=$MGPU_MASK
  nofork=$MGPU_NOFORK
  most=$MGPU_MOST
  unset MGPU_MASK MGPU_NOFORK MGPU_MOST
  dir=$1
  born_at=
  tools
  trap : TERM INT HUP QUIT USR1 USR2
}

# supervise DIR UUIDS GANG SHELL MODE WORKDIR OUT ERR LIMIT INPUT PORT
supervise() {
  prepare "$1"
  read -r boot </proc/sys/kernel/random/boot_id
  ticks_of $$
  record pid "$$:$ticks:$boot:$MGPU_TOKEN" || exit 0
  # a container may have a clock of its own for either
  uptime_now
  hundredths && [ $((hundredths - ticks)) -ge 0 ] && [ $((hundredths - ticks)) -le 100 ] && born_at=$ticks
  gate=$$:$ticks:$boot
  exec 9<"$dir"
  if [ "$9" != - ]; then
    (
      key=$MGPU_TOKEN
      unset MGPU_TOKEN
      watcher timer "$key" "$dir" 9<&-
    )
  fi
  take_leases "$@"
  wind_up
}

# take_over DIR ...: as supervise, behind its gate and its timer, which another one has seen to (quick/watch.pl)
take_over() {
  prepare "$1"
  gate=$MGPU_GATE
  unset MGPU_GATE
  exec 9<"$dir"
  take_leases "$@"
  wind_up
}

# wind_up_of DIR EXIT: what another one has watched over
wind_up_of() {
  prepare "$1"
  unset MGPU_GATE
  said=$2
  wind_up
}

# wind_up: the job has ended
wind_up() {
  # if it has not said yet that it lives, it will see that the job has ended
  living timer && kill "$living" 2>/dev/null
  case $said in *'?') insist "${said%'?'}" ;; esac
  [ -L "$dir/exit" ] || killed
  exec 9<&-
  MGPU_KEY=$MGPU_TOKEN
  if ! newborn; then
    sweep "$$"
  elif [ -n "$newborn" ]; then
    # shellcheck disable=SC2086
    sweep "$$" $newborn
  fi
  finish
}

# insist EXIT -> said, that exit, once it is written down: a home that others keep, or a disk with a fault, may be back soon
insist() {
  said=
  tries=300
  until [ -L "$dir/exit" ] || [ $((tries -= 1)) -lt 0 ]; do
    record exit "$1" && said=$1 && return
    sleep 1
  done
}

# take_leases DIR UUIDS ...: all of it, then the runner, and wait for that -> said, the exit record if it has made one
take_leases() {
  uuids=$2
  set -- sh -c 'eval "$MGPU_P"; run "$@"' mgpu-run "$@"
  split_uuids
  said=
  for uuid in $uuids; do
    [ "$uuid" = - ] && continue
    if ! lease_of "$uuid"; then
      uptime_now
      record exit "fail:node:lock path $lease is obstructed:$uptime"
      return
    fi
    # shellcheck disable=SC2086
    set -- "$flock" -n -E 75 $nofork "$lease" "$@"
  done
  # 3 to 6 are taken here, so that no lease is there when the runner opens its output and input
  said=$(MGPU_P=$program MGPU_MASK=$mask MGPU_GATE=$gate "$@" </dev/null 2>/dev/null 3</dev/null 4</dev/null 5</dev/null 6</dev/null)
  if [ $? = 75 ] && [ ! -L "$dir/exit" ] && [ ! -L "$dir/started" ]; then
    busy_lease
    uptime_now
    record exit "fail:newcomer:$value:$uptime"
  fi
}

# busy_lease -> value, which lease is taken and by whom, as far as /proc tells. Never by trying: that would take the lease
# for a moment, from somebody who is just about to
busy_lease() {
  value="another mgpu holds a lease"
  for uuid in $uuids; do
    lease_of "$uuid" || continue
    # three times: a list of more than a page that changes meanwhile is read with gaps
    line=$(grep -hm 1 "FLOCK .*:$(stat -c %i "$lease") " /proc/locks /proc/locks /proc/locks) || continue
    line=${line#*WRITE }
    line=${line%% *}
    value="the lease of $uuid is held by pid $line of $(stat -c %U "/proc/$line" 2>/dev/null || echo '?')"
    return
  done
}

# finish: the last word about an attempt, once nothing of it is left. $said: what its exit record says, if that is known
finish() {
  sizes=-
  if sizes_of; then
    # a later attempt goes on in the job's own files
    if [ -L "$dir/stdout" ] || [ -L "$dir/stderr" ]; then record sizes "$first,$second"; fi
    sizes=$first,$second,
  fi
  uptime_now
  link_of stop
  why=${value:--}
  value=$said
  [ -n "$value" ] || link_of exit
  if own_end "$value"; then
    why='='
    record clean "$uptime:own"
  else
    record clean "$uptime"
  fi
  event "ended $why $sizes $value"
}

# own_end EXIT: the command ended by itself. What was to end it ($why) came too late: no signal was sent before
own_end() {
  case $why:$1 in
    OOM:* | REQUEUE:* | PORT:* | *:fail:* | *:) return 1 ;;
    -:*) [ ! -L "$dir/stop" ] && [ ! -e "$dir/stop" ] ;; # could not be read, where it is there
    *) [ ! -L "$dir/told" ] ;;
  esac
}

# sizes_of -> first, second: how much this attempt has written to stdout and stderr; fails where a file is gone
sizes_of() {
  link_of sizes && first=${value%,*} && second=${value#*,} && return
  if [ -f "$dir/stdout" ] && [ -f "$dir/stderr" ] && [ ! -s "$dir/stdout" ] && [ ! -s "$dir/stderr" ]; then
    first=0
    second=0
    return
  fi
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
