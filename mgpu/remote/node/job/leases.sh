# Leases: one directory a device, locked by a chain of flock, and inherited by all of the job.

# lease_of UUID -> lease; a directory, since protected_regular forbids other users' lock files in /tmp
lease_of() {
  lease=/tmp/mgpu.lease.$1
  [ -d "$lease" ] || mkdir -m 755 "$lease" 2>/dev/null
  [ -d "$lease" ] && [ ! -L "$lease" ] && [ -r "$lease" ]
}

take_leases() {
  uuids=$2
  set -- sh -c 'eval "$MGPU_P"; run "$@"' mgpu-run "$@"
  split_uuids
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
  # 3 and 4 are taken here, so that no lease is there when the runner opens its output
  MGPU_P=$program MGPU_MASK=$mask MGPU_GATE=$gate "$@" </dev/null >/dev/null 2>&1 3</dev/null 4</dev/null
  if [ $? = 75 ] && [ ! -L "$dir/exit" ] && [ ! -L "$dir/started" ]; then
    busy_lease
    uptime_now
    record exit "fail:newcomer:$value:$uptime"
  fi
}

# split_uuids: a comma between each two becomes a blank
split_uuids() {
  IFS=,
  # shellcheck disable=SC2086
  set -- $uuids
  unset IFS
  uuids=$*
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

# leases_in_place UUIDS: what was locked still has its name, also if somebody cleaned up just then
leases_in_place() {
  uuids=$1
  split_uuids
  for uuid in $uuids; do
    [ "$uuid" = - ] && continue
    lease_of "$uuid" || return
    held=
    for piece in "/proc/$$/fd"/*; do
      # shellcheck disable=SC3013 # in POSIX since 2024, and in every sh
      [ "$piece" -ef "$lease" ] && held=1
    done
    [ -n "$held" ] || return
  done
}
