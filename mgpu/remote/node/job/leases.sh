# Leases: one directory a device, locked by a chain of flock, and inherited by all of the job.

# lease_of UUID -> lease; a directory, since protected_regular forbids other users' lock files in /tmp
lease_of() {
  lease=/tmp/mgpu.lease.$1
  [ -d "$lease" ] || mkdir -m 755 "$lease" 2>/dev/null
  is_lease
}

# is_lease: at $lease is what can be locked
is_lease() { [ -d "$lease" ] && [ ! -L "$lease" ] && [ -r "$lease" ]; }

# split_uuids: a comma between each two becomes a blank
split_uuids() {
  IFS=,
  # shellcheck disable=SC2086
  set -- $uuids
  unset IFS
  uuids=$*
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
