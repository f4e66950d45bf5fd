# Requests that bring a job here: its files are written, its supervisor is started. Nothing of it waits.

# root DATABASE NODE RUN_DIR [own]: `own`, it has to be a folder of this account
op_root() {
  decode "$3"
  at_home "$value"
  top=${value:-${HOME:-/nonexistent}/.mgpu}
  root=$top/$1/$2
  if [ "${4-}" = own ] && ! is_own "$top"; then
    echo "$top is not a folder of this account alone"
    end failed
    return
  fi
  end ok
}

# is_own FOLDER: ours, whoever may write beside it; made where it is not there
is_own() {
  [ -e "$1" ] || [ -L "$1" ] || mkdir -m 700 "$1" 2>/dev/null
  # shellcheck disable=SC3067 # in every sh
  [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]
}

# quick TEXT: from now on it is quick/loop.pl that answers here, where there is a perl for it that is soon there
op_quick() {
  value=$(spill "$1" /proc/self/fd/1; printf .)
  # shellcheck disable=SC2086
  if ! "$timeout" -k 1 5 $plain_perl -MFcntl -MPOSIX -e 1 </dev/null >/dev/null 2>&1; then
    end failed none
    return
  fi
  for piece in $perl_names; do # what it gives back to the jobs
    eval "[ -z \"\${$piece+x}\" ] || export \"MGPU_AS_$piece=\$$piece\""
  done
  export MGPU_P="$program" MGPU_WATCH="$watch" MGPU_MASK="$mask" MGPU_NOFORK="$nofork" MGPU_LOCALE="$locale" \
    MGPU_MOST="$most" MGPU_STREAMS="$streams"
  # shellcheck disable=SC2086
  exec $plain_perl -e "${value%.}" "$mark" "$id" "$root" "${HOME-}" "$boot" 2>/dev/null
}

# spill WORD FILE: append its bytes. All of them are taken from the channel, also where they cannot be written
spill() {
  case $1 in
    @*) ;;
    *)
      printf '%b' "$1" >>"$2"
      return
      ;;
  esac
  set -- "${1#@}" "$2"
  if dd iflag=fullblock,count_bytes count=0 </dev/null; then
    dd bs=65536 iflag=fullblock,count_bytes count="$1"
  else
    dd ibs=1 obs=65536 count="$1"
  fi | {
    cat >>"$2" || {
      cat >/dev/null
      false
    }
  }
  status=$?
  IFS= read -r line
  [ "$line" = . ] || exit 1 # cut off in the middle
  return $status
} 2>/dev/null

# What a job finds in its PATH by the name of Slurm's command: the nodes' addresses, one a line, and the way to be queued
# again, where it may ($may, set in front of this). That wish is a record, told to the master by an event; then the job's
# processes get SIGTERM, but for those that watch over it
scontrol='if [ $# -ge 2 ] && [ $# -le 3 ] && [ "$1" = show ] && case $2 in hostname | hostnames) ;; *) false ;; esac; then
  case ${3-$SLURM_JOB_NODELIST} in
    *"["*) echo "scontrol: here it reads no brackets: leave out the list for that of the job" >&2; exit 1 ;;
  esac
  printf "%s\n" "${3-$SLURM_JOB_NODELIST}" | tr , "\n"; exit
fi
dir=$(cd "${0%/*}/.." && pwd) || exit
key=${dir##*/}
if [ $# -ne 2 ] || [ "$1" != requeue ] || [ "$2" != "${key%.*}" ]; then
  echo "scontrol: here it knows, for the job that it runs in: scontrol show hostnames; scontrol requeue ${key%.*}" >&2; exit 1
fi
[ "$may" = 1 ] || { echo "scontrol: srun and --no-requeue: the job is not queued again" >&2; exit 1; }
if [ -L "$dir/exit" ] || ! ln -s REQUEUE "$dir/stop" 2>/dev/null; then
  [ "$(readlink "$dir/stop")" = REQUEUE ] && exit 0
  echo "scontrol: job ${key%.*} is ending already, or the disk is full" >&2; exit 1
fi
echo "$key requeue" >>"${dir%/*}/events"
leader=$(readlink "$dir/pid"); leader=${leader%%:*}
member=$(readlink "$dir/started"); member=${member%%:*}
keep=" $$ $leader "
while [ "${member:-0}" -gt 1 ] && [ "$member" != "$leader" ]; do
  keep="$keep$member "
  member=$(sed "s/.*) [A-Za-z] \([0-9]*\) .*/\1/" "/proc/$member/stat" 2>/dev/null)
done
for member in $(grep -slE "\) [A-Za-z] [0-9]+ [0-9]+ $leader " /proc/[0-9]*/stat); do
  member=${member#/proc/}; member=${member%/stat}
  case $keep in *" $member "*) ;; *) kill -TERM "$member" 2>/dev/null ;; esac
done; exit 0'

# the job opens its own streams, so that what a shell says of a killed child ("Killed") is not among its output
streams='exec >&3 2>&4 3>&- 4>&-
'

# the same on a terminal, which is there already: its name is recorded, for whoever changes its size
terminal='ln -s "$(readlink /proc/self/fd/0)" "${0%/*}/tty"; exec 3>&- 4>&-
SHELL=$MGPU_SHELL; [ -n "$SHELL" ] || unset SHELL; unset MGPU_SHELL MGPU_TOOL MGPU_SCRIPT
'

# fresh FILE TEXT WORD: a file of both; fails where there is one already, and takes no bytes from the channel then
fresh() {
  made=
  set -C
  {
    set +C
    made=1
    printf '%s' "$2" || failed=1
    spill "$3" /proc/self/fd/1 || failed=1
  } >"$1"
  set +C
  [ -n "$made" ]
} 2>/dev/null

# write_files SCRIPT JOB BIN: the first who comes makes them in place. Who comes beside it, or after one that was cut off in
# the middle, gives them their names when they are complete
write_files() {
  failed=
  if ! fresh "$dir/script" "$first" "$1"; then
    replace_files "$@"
    return
  fi
  [ "$2" = - ] || fresh "$dir/job" '' "$2" || spill "$2" /dev/null
  programs "$3"
  touch_streams
  [ -z "$failed" ]
} 2>/dev/null

replace_files() {
  printf '%s' "$first" >"$dir/script.$$" || failed=1
  spill "$1" "$dir/script.$$" || failed=1
  [ "$2" = - ] || { rm -f "$dir/job.$$" && spill "$2" "$dir/job.$$"; } || failed=1
  programs "$3"
  touch_streams
  [ -z "$failed" ] || return
  [ "$2" = - ] || mv -f "$dir/job.$$" "$dir/job" || return
  mv -f "$dir/script.$$" "$dir/script"
}

# programs 0|MAY: what is made for the jobs of this node, for all of them once; 0 = this one asks for none
programs() {
  [ "$1" != 0 ] || return
  value=$root/bin.$1
  if [ ! -x "$value/scontrol" ]; then
    mkdir -p "$value" && printf '#!/bin/sh\nmay=%s\n%s\n' "$1" "$scontrol" >"$value/scontrol.$$" &&
      chmod 700 "$value/scontrol.$$" && mv -f "$value/scontrol.$$" "$value/scontrol" || failed=1
  fi
  [ -L "$dir/bin" ] || ln -s "../bin.$1" "$dir/bin" || [ -L "$dir/bin" ] || failed=1
}

# touch_streams: so that they can be followed before the job begins
touch_streams() {
  [ -e "$dir/stdout" ] || true >"$dir/stdout" || failed=1
  [ -e "$dir/stderr" ] || true >"$dir/stderr" || failed=1
}

# start KEY TOKEN UUIDS GANG SHELL MODE WORKDIR OUT ERR LIMIT SCRIPT JOB APPEND SIGNAL BIN INPUT PORT: INPUT is - (none), pipe,
# or the ROWSxCOLS of a terminal
op_start() {
  dir=$root/$1
  [ -d "$root" ] || mkdir -p "$root" 2>/dev/null
  if ! mkdir "$dir" 2>/dev/null && [ ! -d "$dir" ]; then
    spill "${11}" /dev/null
    spill "${12}" /dev/null
    value=$(mkdir -p "$dir" 2>&1)
    end failed node "cannot make the run directory $dir: ${value##*: }"
    return
  fi
  if [ -L "$dir/pid" ]; then
    spill "${11}" /dev/null
    spill "${12}" /dev/null
    link_of pid
    end already "$value"
    return
  fi
  case ${16} in
    *x*) first="stty sane rows ${16%x*} cols ${16#*x} 2>/dev/null; $terminal" ;;
    *) first=$streams ;;
  esac
  if ! write_files "${11}" "${12}" "${15}"; then
    # a request sent twice may have passed the gate meanwhile; nothing else may pass it any more
    record pid fenced || { link_of pid && [ "$value" != fenced ] && end already "$value" && return; }
    rm -f "$dir"/script* "$dir"/job*
    end failed node "cannot write to $dir (disk full or quota reached?)"
    return
  fi
  [ "${13}" = 0 ] || record append 1
  [ "${14}" = - ] || record signal "${14}"
  limit=${10}
  token=$2
  decode "$7"; at_home "$value"; workdir=$value
  decode "$8"; out=$value
  decode "$9"; err=$value
  MGPU_P=$program MGPU_WATCH=$watch MGPU_MASK=$mask MGPU_NOFORK=$nofork MGPU_LOCALE=$locale MGPU_MOST=$most \
    MGPU_TOKEN=$token "$setsid" -f sh -c 'eval "$MGPU_P;$MGPU_WATCH"; supervise "$@"' "mgpu-job-$1" \
    "$dir" "$3" "$4" "$5" "$6" "$workdir" "$out" "$err" "$limit" "${16}" "${17}" </dev/null >/dev/null 2>&1
  end ok
}
