# Requests for what one part of a job starts on the nodes of the others: see core/launchers/spawning.py.

# hand KEY TOKEN work|answer ID TEXT: work for the part that waits here, or the answer to what one has asked for. Given
# again it changes nothing. For work it is told how that stands: `taken`, `worked CODE`; TEXT may be - then.
op_hand() {
  dir=$root/$1
  file=$dir/spawn/$3.$4
  if ! link_of pid || [ "${value##*:}" != "$2" ] || [ -L "$dir/exit" ]; then
    spill "$5" /dev/null
    end ok ended
  elif [ "$3" = work ] && link_of "spawn/worked.$4"; then
    spill "$5" /dev/null
    end ok worked "$value"
  elif [ -f "$file" ] || [ -L "$dir/spawn/taken.$4" ]; then
    spill "$5" /dev/null
    if [ "$3" = work ] && killed_work "spawn/by.$4" "spawn/worked.$4"; then
      end ok worked "$value"
    else
      end ok taken
    fi
  elif [ "$3" = answer ] && [ ! -p "$dir/spawn/wake.$4" ]; then
    # nobody waits for it any more
    spill "$5" /dev/null
    rm -f "$dir/spawn/ask.$4"
    end ok ended
  elif [ "$5" = - ]; then
    end ok absent
  else
    lay "$5"
  fi
}

# killed_work BY WORKED -> value: whoever was to tell of its end was killed; nobody else will
killed_work() {
  link_of "$1" && ! living "$1" || return
  record "$2" 137
  link_of "$2"
}

# lay WORD: it is in $file, complete or not at all
lay() {
  mkdir -p "$dir/spawn" 2>/dev/null
  if spill "$1" "$dir/spawn/.$$.${file##*/}" && mv -f "$dir/spawn/.$$.${file##*/}" "$file" 2>/dev/null; then
    case $file in
      */answer.*) wake "spawn/wake.${file##*/answer.}" ;;
      *) wake ;;
    esac
    end ok taken
  else
    rm -f "$dir/spawn/.$$.${file##*/}"
    end failed node "cannot write to $dir/spawn (disk full?)"
  fi
}

# unplace: the names under which the run directory of rank 0 led to $dir; nothing but links to it
unplace() {
  for piece in "$dir"/spawn/place.[12]; do
    [ -L "$piece" ] || continue
    value=$(readlink "$piece")
    # shellcheck disable=SC3013 # in POSIX since 2024, and in every sh
    [ -L "$value" ] && [ "$value" -ef "$dir" ] && rm -f "$value" && rmdir "${value%/*}"
  done
} 2>/dev/null

# asks KEY: a line `KEY ask ID` for each that is not answered; not endlessly many of those that a job has put there
asks() {
  count=0
  for piece in "$dir"/spawn/ask.*; do
    if [ ! -f "$piece" ] || [ -L "$piece" ] || [ -e "$dir/spawn/answer.${piece##*/ask.}" ]; then continue; fi
    case ${piece##*/ask.} in *[!0-9.]* | ??????????????????????????*) continue ;; esac
    printf '%s ask %s\n' "$1" "${piece##*/ask.}"
    [ $((count += 1)) -lt 200 ] || break
  done
}
