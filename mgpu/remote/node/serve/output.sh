# Requests that read what jobs write, and what happens to them: once, or as it comes.

# read KEY stdout|stderr OFFSET MAX: raw bytes, then the size
op_read() {
  dir=$root/$1
  # a job may have put a folder there, or have locked itself out: that will not change, and nobody is to wait for it
  if ! size=$(stat -L -c %s "$dir/$2" 2>/dev/null) || [ -d "$dir/$2" ] || [ ! -r "$dir/$2" ]; then
    end failed gone "$dir/$2"
    return
  fi
  base_of "$2"
  size=$((size > base ? size - base : 0))
  if link_of sizes; then
    [ "$2" = stdout ] && value=${value%,*}
    [ "$size" -gt "${value#*,}" ] && size=${value#*,}
  fi
  left=$((size - $3))
  [ "$left" -gt "$4" ] && left=$4
  [ "$left" -gt 0 ] && "$tail" -c "+$((base + $3 + 1))" "$dir/$2" | head -c "$left"
  end ok "$size"
}

# follow KEY OUT_OFFSET ERR_OFFSET: both files live, each on its own stream, until a line (or the end) comes on stdin;
# the offset - leaves one out
op_follow() {
  dir=$root/$1
  printf '\n%s %s begin\n' "$mark" "$id" >&2
  tails=
  if [ "$2" != - ]; then
    base_of stdout
    "$tail" -c "+$((base + $2 + 1))" -s 0.05 -f "$dir/stdout" 2>/dev/null &
    tails=$!
  fi
  if [ "$3" != - ]; then
    base_of stderr
    "$tail" -c "+$((base + $3 + 1))" -s 0.05 -f "$dir/stderr" >&2 2>/dev/null &
    tails="$tails $!"
  fi
  read -r value
  # shellcheck disable=SC2086
  [ -z "$tails" ] || kill $tails 2>/dev/null
  wait
  # with no line break before them: whoever waits for one has to hold back the last of every output
  printf '%s %s end ok\n' "$mark" "$id"
  printf '%s %s end ok\n' "$mark" "$id" >&2
}

# short_events: it is only a hint: what is lost by cutting it is found by the next look
short_events() {
  size=$(stat -c %s "$root/events" 2>/dev/null)
  [ "${size:-0}" -le 1000000 ] || true >"$root/events"
}

# events: lines of the events file as they come, until a line (or the end) comes on stdin
op_events() {
  dir=$root/events
  [ -d "$root" ] || mkdir -p "$root" 2>/dev/null
  [ ! -p "$dir" ] || rm -f "$dir"
  short_events
  true >>"$dir"
  printf '%s %s begin\n' "$mark" "$id"
  # by name: somebody may remove all of ours, and the next job makes it anew
  "$tail" -n 0 -s 0.05 -F "$dir" 2>/dev/null &
  tail1=$!
  read -r value
  kill $tail1 2>/dev/null
  wait
  end ok
}
