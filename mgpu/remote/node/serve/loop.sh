# The serve loop: one request a line. It never waits for a job.

# serve MARK
serve() {
  mark=$1
  id=hello
  mask=$(umask)
  umask 077
  case $("$flock" --help 2>&1) in *--no-fork*) nofork=-F ;; *) nofork= ;; esac
  # how many numbers for processes there are; `read`, byte by byte, would be told the first digit alone
  most=$(cat /proc/sys/kernel/pid_max)
  read -r hostname </proc/sys/kernel/hostname
  read -r boot </proc/sys/kernel/random/boot_id
  missing=
  for value in setsid flock timeout tail head stat readlink ln mkdir grep find env; do
    command -v $value >/dev/null || missing="$missing,$value"
  done
  for value in "$setsid" "$flock"; do
    [ -L "$value" ] || continue
    case $(readlink "$value") in *busybox) missing="$missing,util-linux's ${value##*/}" ;; esac
  done
  end ok "$boot" "$hostname" "${missing#,}"
  while IFS= read -r line; do
    set -f
    # shellcheck disable=SC2086
    set -- $line
    set +f
    [ $# -ge 2 ] || continue
    id=$1
    operation=$2
    shift 2
    case $operation in
      root | quick | start | state | stop | go | limit | signal | hand | clean | read | follow | feed | events | probe | residue | remove | tree | take_tree | remove_leases | listen | reach | try | marks) "op_$operation" "$@" ;;
      *) end failed unknown "$operation" ;;
    esac
  done
}
