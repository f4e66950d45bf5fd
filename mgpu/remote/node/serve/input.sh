# Requests that give a job its input, as it comes.

# feed KEY: until a line `stop`, lines of
#   in COUNT WORD   so many bytes, as `spill` takes them
#   eof             there are no more
#   size ROWS COLS  of its terminal
# At first, and after each, is told how many bytes the job's pipe has taken in all: `MARK ID fed COUNT`; last, `over COUNT`
# where nobody reads them any more. It is the last request of its shell: what nobody took is never taken for another.
#
# A link may be dead for hours before sshd notices. So all of it comes through a pump, and the next one who feeds ends that:
# the one before it ends by itself then, when what it has is in the pipe.
op_feed() {
  dir=$root/$1
  if [ ! -p "$dir/stdin" ] || [ -L "$dir/exit" ]; then
    end failed over
    return
  fi
  exec 8<>"$dir/fed"
  if ! { "$flock" -n 8 || { end_pump; "$flock" -w 15 8; }; }; then
    exec 8<&-
    end failed busy
    return
  fi
  rm -f "$dir/pump"
  pump | feed
  exit 0
}

# pump: everything from here on, for this one request
pump() {
  read -r self _ </proc/self/stat
  ticks_of "$self"
  record pump "$self:$ticks"
  exec cat 8<&-
}

end_pump() { living pump && kill "$living"; } 2>/dev/null

feed() {
  read -r fed <&8
  trap '' PIPE
  # for both ways first: for writing alone it would wait for a reader
  value=$dir/stdin
  exec 7<>"$value"
  exec 6>"$value" 7<&-
  newline='
'
  case $(dd iflag=fullblock,count_bytes count=0 2>&1 </dev/null) in *"0 bytes"*) in_bytes=1 ;; *) in_bytes= ;; esac
  tell_fed
  while IFS= read -r line; do
    set -f
    # shellcheck disable=SC2086
    set -- $line
    set +f
    case $1 in
      in) pass "$2" "$3" || { tell_fed over; exit 0; } ;;
      eof) close_input ;;
      size) resize "$2" "$3" ;;
      *) break ;;
    esac
    tell_fed
  done
  end ok
}

# not cut to its new length: that needs no room on a full disk, and a count only becomes longer
tell_fed() {
  fed=${fed:-0}
  printf '%s\n' "$fed" 1<>"$dir/fed"
  printf '%s %s %s %s\n' "$mark" "$id" "${1:-fed}" "$fed"
}

# pass COUNT WORD
pass() {
  case $2 in
    @*)
      # in its last line it tells how many bytes there were, or else, in its first one, how many it was told to take singly
      if [ -n "$in_bytes" ]; then
        value=$(dd bs=65536 iflag=fullblock,count_bytes count="${2#@}" 2>&1 >&6)
        value=${value##*"$newline"}
        value=${value%% *}
      else
        value=$(dd ibs=1 obs=4096 count="${2#@}" 2>&1 >&6)
        value=${value%%+*}
      fi
      case $value in *[!0-9]*) value=0 ;; esac
      # a link that is cut off in the middle leaves less than that
      fed=$((fed + ${value:-0}))
      [ "${value:-0}" = "$1" ] || return
      IFS= read -r line
      ;;
    *)
      printf '%b' "$2" >&6 || return
      fed=$((fed + $1))
      ;;
  esac
} 2>/dev/null

close_input() {
  exec 6>&-
  [ -p "$dir/eof" ] || return
  # for both ways: the keeper may be gone
  { exec 7<>"$dir/eof"; echo >&7; rm -f "$dir/eof"; exec 7<&-; } 2>/dev/null
}

# resize ROWS COLS: what has that size already is told of a change nevertheless, and draws all anew
resize() {
  { [ ! -L "$dir/exit" ] && link_of tty && [ -c "$value" ]; } || return
  [ "$(stty size <"$value")" != "$1 $2" ] || stty cols $(($2 + 1)) <"$value"
  stty rows "$1" cols "$2" <"$value"
} 2>/dev/null
