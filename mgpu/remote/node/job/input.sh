# Input: the stdin of a job that is given one; without, it is empty.
#
# It is a named pipe. The runner keeps it open for reading and a process of its own, the keeper, for writing: so nothing is
# lost when who writes is cut off, and the job comes to the end of it when that is said, by a word through another such pipe.
# A terminal is the same pipe behind util-linux's `script`, which makes the terminal and copies both ways.

# open_input INPUT -> input, the descriptor 5, to read, and keeper
open_input() {
  input=$1
  keeper=
  exec 5<&- 6<&-
  [ "$input" = - ] && return
  if [ "$input" != pipe ]; then
    chosen=$tool
    tool script
    script=$tool
    tool=$chosen
    # busybox's does not tell how the command ended
    case $([ -z "$script" ] || "$script" --version 2>/dev/null) in
      *util-linux*) ;;
      *) fail node "there is no util-linux script here, which --pty needs (Debian: bsdutils, Alpine: util-linux-misc)" ;;
    esac
  fi
  mkfifo -m 600 "$dir/stdin" "$dir/eof" 2>/dev/null || fail node "cannot make a named pipe in $dir"
  # opened for both ways first: for one alone it would wait for the other
  value=$dir/stdin
  exec 5<>"$value"
  exec 6>"$value"
  exec 5<"$value"
  (
    # what is sent to the job's processes is not meant for this one, but for the end of all
    trap '' HUP INT QUIT USR1 USR2 ALRM TERM
    exec 5<&- 3>&- 4>&-
    read -r _ <"$dir/eof"
  ) >/dev/null 2>&1 &
  keeper=$!
  exec 6>&-
}

# run_command -> code
run_command() {
  case $input in
    -) "$tool" "$dir/script" >/dev/null ;;
    pipe) "$tool" "$dir/script" >/dev/null <&5 5<&- ;;
    *)
      # it has the command run by the shell that SHELL names, which may be any
      export MGPU_SHELL="${SHELL-}" MGPU_TOOL="$tool" MGPU_SCRIPT="$dir/script"
      SHELL=/bin/sh "$script" -qfec 'exec "$MGPU_TOOL" "$MGPU_SCRIPT"' /dev/null <&5 5<&- >&3 2>&4
      ;;
  esac
  code=$?
  # KILL: any other is lost on one that has just been made
  [ -z "$keeper" ] || { kill -KILL "$keeper" && wait "$keeper"; } 2>/dev/null
}
