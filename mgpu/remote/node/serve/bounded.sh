# Programs that are not ours, run with bounds: on their time, on what they print, and on what they leave behind.

# bounded LIMIT_S BYTES more|less COMMAND... -> answer, at most so much of what it prints, and its exit status: 124 = its
# time was up; 153 (as of a file too large) = it printed more. `more`: it may print on, unread. It ends with the program,
# whatever that leaves behind. (No pattern may go over all of an answer: bash takes minutes for that.)
bounded() {
  limit=$1
  size=$2
  rest=$3
  shift 3
  at_most "$size" "$rest" in_time "$limit" "$@"
}

# at_most BYTES more|less FUNCTION WORD... -> answer, and the function's status, of what it runs by `in_time`. One function
# may run several programs: these bounds cost more than many a program that they bound
at_most() {
  size=$1
  rest=$2
  shift 2
  answer=$(
    exec 4>&1
    status=$(
      {
        {
          "$@"
          printf %s $? >&3
        } 4>&- | {
          [ "$rest" = more ] || exec head -c "$size"
          head -c "$size"
          exec cat >/dev/null
        } >&4 3>&- 4>&-
      } 3>&1
    )
    printf . # else line ends would be lost, and with them how much it was
    exit "$status"
  )
  status=$?
  answer=${answer%.}
  if [ "$rest" = less ] && { [ "$status" = 141 ] || [ ${#answer} -ge "$size" ]; }; then status=153; fi
  answer=${answer%"
"}
  return "$status"
}

# in_time LIMIT_S COMMAND... -> its exit status, with nothing of it left behind
in_time() {
  limit=$1
  shift
  uptime_now
  since=${uptime%.*}
  "$timeout" -k 2 "$limit" "$@" </dev/null 3>&- &
  wait $!
  status=$?
  leave_nothing $!
  uptime_now
  # some timeouts end as what they ended, and what ends early was ended by somebody else
  case $status in 137 | 143) [ $((${uptime%.*} - since)) -lt "$limit" ] || status=124 ;; esac
  return "$status"
}

# leave_nothing PID: end what is left of its group, and whatever else of what began since holds this pipe
leave_nothing() {
  kill -KILL "-$1" 2>/dev/null
  read -r self _ </proc/self/stat
  read -r _ _ _ _ last </proc/loadavg
  if [ "$last" -ge "$1" ] && [ "$last" -le $(($1 + 1000)) ]; then
    piece=$1
    while [ $((piece += 1)) -le "$last" ]; do end_holder $piece; done
  else
    for piece in /proc/[0-9]*; do end_holder "${piece#/proc/}"; done
  fi
}

end_holder() {
  [ "$1" = "$self" ] && return
  # shellcheck disable=SC3013 # in POSIX since 2024, and in every sh
  if [ "/proc/$1/fd/1" -ef /proc/self/fd/1 ] || [ "/proc/$1/fd/2" -ef /proc/self/fd/1 ]; then
    kill -KILL "$1" 2>/dev/null
  fi
}
