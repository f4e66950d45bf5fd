# The node's half of mgpu: sent over a channel's stdin, held in $P, never written to disk on the node.
#
# It needs a POSIX sh (dash, busybox, bash), coreutils, and util-linux's setsid and flock. The serve loop reads one
# framed request a line, `ID OP WORD...`, and answers with text that ends in a line `MARK ID end STATUS WORD...`. MARK is
# random per channel, so that login noise can never be taken for an answer. Words are %b-escaped (`\0ooo`), "-" is empty.
#
# Run directory of an attempt, $R/JOB.ATTEMPT (records are symlinks: atomic, and they need no data block on a full disk):
#   pid      -> PID:TICKS:BOOT:TOKEN  the once-only gate, made by the supervisor itself; or `fenced`
#   ready    -> UPTIME                prepared and waiting for `go` (several nodes)
#   go       -> run|abort             made by whoever comes first
#   started  -> PID:UPTIME:NOTICE     the shell that runs the job; NOTICE `home` = the wanted directory is not here
#   deadline -> UPTIME                re-read by the timer, so that the limit of a running job can be moved
#   stop     -> CANCEL|TIMEOUT|...    written before TERM
#   exit     -> CODE:UPTIME           or `fail:CLASS:TEXT` where the command never ran
#   clean    -> UPTIME                nothing of the job is left on the node
#   script job stdout stderr step
#
# Two shells watch over a job. The supervisor leads the session, passes the gate and takes the leases by a chain of
# flock; the runner, inside that chain, runs the job in its foreground. The supervisor holds no lease itself: so the
# leases are free before `clean` says so.
# shellcheck shell=sh disable=SC2016

umask 077
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin

end() { printf '\n%s %s end %s\n' "$MARK" "$ID" "$*"; }

# at_home PATH -> V, with a leading ~/ resolved
at_home() {
  V=$1
  # shellcheck disable=SC2088
  case $V in "~/"*) V=${HOME-}/${V#??} ;; esac
}

# decode WORD -> V
decode() {
  case $1 in
    -) V= ;;
    *\\*) V=$(printf '%b.' "$1"); V=${V%.} ;;
    *) V=$1 ;;
  esac
}

uptime_now() { read -r U _ </proc/uptime; }

# ticks_of PID -> T, the start time in clock ticks since boot; fails where no such process lives (zombies do not)
ticks_of() {
  T=
  { read -r T <"/proc/$1/stat"; } 2>/dev/null || return 1
  T=${T##*) }
  case $T in Z* | X*) return 1 ;; esac
  # shellcheck disable=SC2086
  set -- $T
  T=${20}
}

# parent_of PID -> PP
parent_of() {
  PP=
  { read -r PP <"/proc/$1/stat"; } 2>/dev/null || return 1
  PP=${PP##*) }
  PP=${PP#* }
  PP=${PP%% *}
}

# link_of NAME -> V, the content of a record in $D; fails where it is not there
link_of() {
  V=
  [ -L "$D/$1" ] || return 1
  V=$(readlink "$D/$1")
}

# record NAME CONTENT: first one wins
record() { ln -s "$2" "$D/$1" 2>/dev/null; }

event() { printf '%s\n' "${D##*/} $*" >>"${D%/*}/events"; } 2>/dev/null

# --- the supervisor -------------------------------------------------------------------------------------------------

# supervise DIR UUIDS GANG SHELL MODE WORKDIR OUT ERR LIMIT
supervise() {
  P=$MGPU_P
  unset MGPU_P
  D=$1
  trap : TERM INT HUP QUIT USR1 USR2
  read -r BOOT </proc/sys/kernel/random/boot_id
  ticks_of $$
  if ! record pid "$$:$T:$BOOT:$MGPU_TOKEN"; then
    [ -L "$D/pid" ] || event "failed the gate could not be made"
    exit 0
  fi
  GATE=$$:$T:$BOOT
  exec 9<"$D"
  if [ "$9" != - ]; then
    MGPU_P=$P MGPU_KEY=$MGPU_TOKEN env -u MGPU_TOKEN setsid sh -c 'eval "$MGPU_P"; timer "$@"' mgpu-timer "$D" 9<&- &
    TIMER=$!
  fi
  take_leases "$@"
  [ "$9" = - ] || kill "$TIMER" 2>/dev/null
  # the runner was killed, or a lease was not to be had
  uptime_now
  link_of exit || record exit "fail:supervisor:the job's supervising shell was killed:$U"
  exec 9<&-
  MGPU_KEY=$MGPU_TOKEN
  sweep "$$"
  finish
}

# finish: the last word about an attempt, once nothing of it is left
finish() {
  uptime_now
  record clean "$U"
  link_of stop
  STOP=${V:--}
  SIZES=$(stat -L -c %s "$D/stdout" "$D/stderr" 2>/dev/null | tr '\n' ,)
  link_of exit
  event "ended $STOP ${SIZES:--} $V"
}

# lease_of UUID -> L; a directory, since protected_regular forbids other users' lock files in /tmp
lease_of() {
  L=/tmp/mgpu.lease.$1
  [ -d "$L" ] || mkdir -m 755 "$L" 2>/dev/null
  [ -d "$L" ] && [ ! -L "$L" ] && [ -r "$L" ]
}

take_leases() {
  UUIDS=$2
  case $(flock --help 2>&1) in *--no-fork*) NOFORK=-F ;; *) NOFORK= ;; esac
  set -- sh -c 'eval "$MGPU_P"; run "$@"' mgpu-run "$@"
  IFS=,
  for U in $UUIDS; do
    [ "$U" = - ] && continue
    if ! lease_of "$U"; then
      record exit "fail:node:lock path $L is obstructed:0"
      return
    fi
    # shellcheck disable=SC2086
    set -- flock -n -E 75 $NOFORK "$L" "$@"
  done
  unset IFS
  MGPU_P=$P MGPU_GATE=$GATE "$@" </dev/null >/dev/null 2>&1
  if [ $? = 75 ] && [ ! -L "$D/exit" ] && [ ! -L "$D/started" ]; then
    busy_lease
    record exit "fail:newcomer:$V:0"
  fi
}

# busy_lease -> V, which lease is taken and by whom, as far as /proc tells
busy_lease() {
  V="another mgpu holds a lease"
  IFS=,
  for U in $UUIDS; do
    lease_of "$U" || continue
    flock -n "$L" true 2>/dev/null && continue
    V="the lease of $U is held"
    INODE=$(stat -c %i "$L")
    while read -r LINE; do
      case $LINE in
        *FLOCK*:"$INODE "*)
          LINE=${LINE#*WRITE }
          LINE=${LINE%% *}
          V="$V by pid $LINE of $(stat -c %U "/proc/$LINE" 2>/dev/null || echo '?')"
          break
          ;;
      esac
    done </proc/locks
    break
  done
  unset IFS
}

# timer DIR: fires at the deadline, which may be moved while it sleeps
timer() {
  P=$MGPU_P
  unset MGPU_P
  D=$1
  while [ ! -L "$D/exit" ]; do
    if link_of deadline; then
      uptime_now
      LEFT=$((V - ${U%.*}))
      if [ $LEFT -le 0 ]; then
        record stop TIMEOUT && launch_reaper "$MGPU_KEY" 10
        exit 0
      fi
      [ $LEFT -gt 10 ] && LEFT=10
      sleep $LEFT
    else
      sleep 1
    fi
  done
}

# --- the runner -----------------------------------------------------------------------------------------------------

# fail CLASS TEXT
fail() {
  uptime_now
  record exit "fail:$1:$2:$U"
  exit 0
}

# enter MODE DIR -> NOTICE
enter() {
  NOTICE=-
  printf 'entering the working directory %s' "$2" >"$D/step" 2>/dev/null
  if [ -z "$2" ]; then
    cd 2>/dev/null || fail node "the home directory ${HOME-} cannot be entered"
  elif [ "$1" = must ] || [ -d "$2" ]; then
    if ! cd "$2" 2>/dev/null; then
      [ -d "$2" ] && fail node "working directory $2 cannot be entered"
      [ -e "$2" ] && fail directory "working directory $2 is not a directory"
      fail directory "working directory $2 does not exist"
    fi
  else
    NOTICE=home
    cd 2>/dev/null || fail node "the home directory ${HOME-} cannot be entered"
  fi
  printf 'starting' >"$D/step" 2>/dev/null
}

# outputs OUT ERR: the job's own files if it asked for some, with the run directory pointing at them
outputs() {
  if [ -z "$1" ]; then
    { : >"$D/stdout"; } 2>/dev/null || fail node "cannot write to $D"
    exec 3>>"$D/stdout"
  else
    case $1 in /*) V=$1 ;; *) V=$PWD/$1 ;; esac
    { : >"$V"; } 2>/dev/null || fail directory "cannot write $V"
    exec 3>>"$V"
    ln -sf "$V" "$D/stdout"
  fi
  if [ -z "$2" ] && [ -z "$1" ]; then
    { : >"$D/stderr"; } 2>/dev/null || fail node "cannot write to $D"
    exec 4>>"$D/stderr"
  elif [ -z "$2" ] || [ "$2" = "$1" ]; then
    exec 4>&3
    : >"$D/stderr"
  else
    case $2 in /*) V=$2 ;; *) V=$PWD/$2 ;; esac
    { : >"$V"; } 2>/dev/null || fail directory "cannot write $V"
    exec 4>>"$V"
    ln -sf "$V" "$D/stderr"
  fi
}

# await_go: several nodes start together or not at all
await_go() {
  uptime_now
  record ready "$U"
  event "ready $U $GATE"
  UNTIL=$((${U%.*} + 300))
  while ! link_of go; do
    [ -L "$D/stop" ] && fail aborted "stopped before it began"
    uptime_now
    [ "${U%.*}" -ge $UNTIL ] && record go abort
    sleep 0.05
  done
  [ "$V" = run ] || fail aborted "the other nodes were not ready"
}

# run DIR UUIDS GANG SHELL MODE WORKDIR OUT ERR LIMIT
run() {
  GATE=$MGPU_GATE
  unset MGPU_P MGPU_GATE
  D=$1
  trap : TERM INT HUP QUIT USR1 USR2
  enter "$5" "$6"
  INTERPRETER=$4
  [ "$INTERPRETER" = bash ] && ! command -v bash >/dev/null && INTERPRETER="sh"
  outputs "$7" "$8"
  [ "$3" = 1 ] && await_go
  [ -L "$D/stop" ] && fail aborted "stopped before it began"
  uptime_now
  [ "$9" = - ] || record deadline $((${U%.*} + $9))
  record started "$$:$U:$NOTICE" || fail node "cannot record the start (disk full?)"
  event "started $U $NOTICE $GATE"
  "$INTERPRETER" "$D/script"
  CODE=$?
  uptime_now
  record exit "$CODE:$U"
  exit 0
}

# --- ending a job ---------------------------------------------------------------------------------------------------

# members SUPERVISOR -> V, pids of the job's processes but for those that watch over it. Three nets: the session, the
# token in the environment, the inherited descriptor of the run directory; a process may have left any of them.
# Another's processes cannot be signalled anyway; a session counts only while its leader is ours.
members() {
  FOUND=
  if [ -n "$1" ]; then
    FOUND=$(grep -slE "\\) [A-Za-z] [0-9]+ [0-9]+ $1 " /proc/[0-9]*/stat)
  fi
  FOUND="$FOUND
$(grep -slaz "^MGPU_TOKEN=$MGPU_KEY\$" /proc/[0-9]*/environ)
$(find /proc/[0-9]*/fd -lname "$(cd -P "$D" && pwd)" 2>/dev/null)"
  KEEP=" $$ $1 "
  if [ -n "$1" ] && link_of started; then
    PP=${V%%:*}
    while [ -n "$PP" ] && [ "$PP" -gt 1 ] && [ "$PP" != "$1" ]; do
      KEEP="$KEEP$PP "
      parent_of "$PP" || break
    done
  fi
  V=
  for F in $FOUND; do
    F=${F#/proc/}
    F=${F%%/*}
    case "$KEEP" in *" $F "*) continue ;; esac
    ticks_of "$F" || continue
    KEEP="$KEEP$F "
    V="$V$F "
  done
}

# sweep SUPERVISOR: end what a finished job left behind; TERM, two seconds, KILL
sweep() {
  members "$1"
  [ -z "$V" ] && return
  event "leftover $V"
  # shellcheck disable=SC2086
  kill -TERM $V 2>/dev/null
  N=0
  while [ $N -lt 200 ]; do
    sleep 0.1
    members "$1"
    [ -z "$V" ] && return
    # shellcheck disable=SC2086
    [ $N -ge 10 ] && kill -KILL $V 2>/dev/null
    N=$((N + 1))
  done
  record stuck "$V"
}

launch_reaper() {
  MGPU_P=$P MGPU_KEY=$1 setsid -f sh -c 'eval "$MGPU_P"; reap "$@"' mgpu-reap "$D" "$2" </dev/null >/dev/null 2>&1
}

# leader -> LEADER, the supervisor's pid if it is still that process, else empty
leader() {
  link_of pid
  LEADER=${V%%:*}
  V=${V#*:}
  ticks_of "$LEADER" && [ "$T" = "${V%%:*}" ] && return
  LEADER=
}

# reap DIR GRACE: TERM, grace, KILL, repeated until none is left
reap() {
  unset MGPU_P
  D=$1
  uptime_now
  KILL_AT=$((${U%.*} + $2))
  leader
  members "$LEADER"
  # shellcheck disable=SC2086
  [ -n "$V" ] && kill -TERM $V 2>/dev/null
  NAP=0.02
  while :; do
    sleep $NAP
    NAP=0.1
    leader
    [ -L "$D/clean" ] && exit 0
    members "$LEADER"
    [ -z "$V" ] && [ -z "$LEADER" ] && break
    uptime_now
    if [ "${U%.*}" -ge $KILL_AT ]; then
      # a runner that hangs before its job began has to go too
      [ -L "$D/started" ] || [ -L "$D/exit" ] || V="$V $LEADER"
      # shellcheck disable=SC2086
      kill -KILL $V 2>/dev/null
      NAP=0.3
    fi
    if [ "${U%.*}" -ge $((KILL_AT + 120)) ]; then
      record stuck "$V"
      exit 0
    fi
  done
  STEP=
  { read -r STEP <"$D/step"; } 2>/dev/null
  uptime_now
  if [ -L "$D/started" ]; then
    record exit "fail:supervisor:the job's supervising shell was killed:$U"
  else
    record exit "fail:node:it hung while $STEP:$U"
  fi
  finish
}

# --- requests -------------------------------------------------------------------------------------------------------

# root DATABASE NODE RUN_DIR
op_root() {
  decode "$3"
  at_home "$V"
  R=${V:-${HOME:-/nonexistent}/.mgpu}/$1/$2
  end ok
}

# write_files SCRIPT JOB
write_files() {
  # the job opens its own streams, so that what a shell says of a killed child ("Killed") is not among its output
  printf 'exec >&3 2>&4 3>&- 4>&-\n%b' "$1" >"$D/script$NEW" || return
  [ "$2" = - ] || printf '%b' "$2" >"$D/job$NEW" || return
  [ -e "$D/stdout" ] || : >"$D/stdout" || return
  [ -e "$D/stderr" ] || : >"$D/stderr" || return
  [ -z "$NEW" ] || mv -f "$D/script$NEW" "$D/script" || return
  [ -z "$NEW" ] || [ "$2" = - ] || mv -f "$D/job$NEW" "$D/job"
} 2>/dev/null

# start KEY TOKEN UUIDS GANG SHELL MODE WORKDIR OUT ERR LIMIT SCRIPT JOB
op_start() {
  D=$R/$1
  [ -d "$R" ] || mkdir -p "$R" 2>/dev/null
  NEW=
  if ! mkdir "$D" 2>/dev/null; then
    # a request sent twice: what the first one wrote may be in use already
    NEW=.new
    if [ ! -d "$D" ]; then
      V=$(mkdir -p "$D" 2>&1)
      end failed node "$V"
      return
    fi
  fi
  if [ -L "$D/pid" ]; then
    link_of pid
    end already "$V"
    return
  fi
  if ! write_files "${11}" "${12}"; then
    # a request sent twice may have passed the gate meanwhile; nothing else may pass it any more
    record pid fenced || { link_of pid && [ "$V" != fenced ] && end already "$V" && return; }
    end failed node "cannot write to $D (disk full or quota reached?)"
    return
  fi
  LIMIT=${10}
  TOKEN=$2
  decode "$7"; at_home "$V"; WORKDIR=$V
  decode "$8"; OUT=$V
  decode "$9"; ERR=$V
  MGPU_P=$P MGPU_TOKEN=$TOKEN setsid -f sh -c 'eval "$MGPU_P"; supervise "$@"' "mgpu-job-$1" \
    "$D" "$3" "$4" "$5" "$6" "$WORKDIR" "$OUT" "$ERR" "$LIMIT" </dev/null >/dev/null 2>&1
  end ok
}

# state KEY...: for each a line `KEY NAME VALUE` a record, `KEY alive 1`, `KEY size OUT ERR`; then the uptime and boot id
op_state() {
  for K in "$@"; do
    D=$R/$K
    [ -d "$D" ] || continue
    for NAME in pid ready go started stop exit clean stuck deadline; do
      link_of $NAME || continue
      printf '%s %s %s\n' "$K" $NAME "$V"
      if [ $NAME = pid ]; then
        leader
        [ -n "$LEADER" ] && printf '%s alive 1\n' "$K"
      fi
    done
    [ -f "$D/stdout" ] && printf '%s size %s\n' "$K" "$(stat -L -c %s "$D/stdout" "$D/stderr" 2>/dev/null | tr '\n' ' ')"
    [ -f "$D/step" ] && { read -r V <"$D/step"; printf '%s step %s\n' "$K" "$V"; }
  done
  uptime_now
  read -r BOOT </proc/sys/kernel/random/boot_id
  end ok "$U" "$BOOT"
}

# stop KEY TOKEN REASON GRACE: fence what has not begun, end what has
op_stop() {
  D=$R/$1
  [ -d "$D" ] || mkdir -p "$D" 2>/dev/null
  if record pid fenced; then
    end ok fenced
    return
  fi
  if ! link_of pid; then
    end failed node "cannot lay a fence in $D (disk full, or no home?)"
  elif [ "$V" = fenced ]; then
    end ok fenced
  elif [ "${V##*:}" != "$2" ]; then
    end failed token "$V"
  else
    record stop "$3"
    [ -L "$D/clean" ] || launch_reaper "$2" "$4"
    end ok stopping
  fi
}

# go KEY run|abort
op_go() {
  D=$R/$1
  record go "$2"
  link_of go
  end ok "$V"
}

# clean KEY...: what is left is a tombstone (late bytes must not start it again)
op_clean() {
  for K in "$@"; do
    D=$R/$K
    rm -rf "$D/script" "$D/job" "$D/stdout" "$D/stderr" "$D/step" "$D/ready" "$D/go" "$D/started" "$D/deadline" "$D/stop"
  done
  end ok
}

# read KEY stdout|stderr OFFSET MAX: raw bytes, then the size
op_read() {
  D=$R/$1
  SIZE=$(stat -L -c %s "$D/$2" 2>/dev/null) || {
    end failed gone "$D/$2"
    return
  }
  LEFT=$((SIZE - $3))
  [ "$LEFT" -gt "$4" ] && LEFT=$4
  [ "$LEFT" -gt 0 ] && tail -c "+$(($3 + 1))" "$D/$2" | head -c "$LEFT"
  end ok "$SIZE"
}

# follow KEY OUT_OFFSET ERR_OFFSET: both files live, each on its own stream, until a line (or the end) comes on stdin
op_follow() {
  D=$R/$1
  printf '\n%s %s begin\n' "$MARK" "$ID" >&2
  tail -c "+$(($2 + 1))" -s 0.05 -f "$D/stdout" 2>/dev/null &
  T1=$!
  tail -c "+$(($3 + 1))" -s 0.05 -f "$D/stderr" 2>/dev/null >&2 &
  T2=$!
  read -r V
  kill $T1 $T2 2>/dev/null
  wait
  end ok
  end ok >&2
}

# events: lines of the events file as they come, until a line (or the end) comes on stdin
op_events() {
  D=$R/events
  [ -d "$R" ] || mkdir -p "$R" 2>/dev/null
  # it is only a hint: what is lost by cutting it is found by the next look
  SIZE=$(stat -c %s "$D" 2>/dev/null)
  [ "${SIZE:-0}" -gt 1000000 ] && : >"$D"
  : >>"$D"
  printf '%s %s begin\n' "$MARK" "$ID"
  tail -n 0 -s 0.05 -f "$D" 2>/dev/null &
  T1=$!
  read -r V
  kill $T1 2>/dev/null
  wait
  end ok
}

section() { printf '\n%s %s section %s\n' "$MARK" "$ID" "$*"; }

# process_line PID -> pid user age session token command
process_line() {
  { read -r LINE <"/proc/$1/stat" && read -r COMM <"/proc/$1/comm"; } 2>/dev/null || return
  OWNER=$(stat -c %U "/proc/$1" 2>/dev/null) || return
  TOKEN=$(grep -saoz '^MGPU_TOKEN=[0-9a-f]*' "/proc/$1/environ" 2>/dev/null | tr -d '\0')
  TOKEN=${TOKEN#MGPU_TOKEN=}
  ticks_of "$1" || return
  LINE=${LINE##*) }
  LINE=${LINE#* * * }
  # 100 ticks a second: USER_HZ is fixed for user space
  printf '%s %s %s %s %s %s\n' "$1" "$OWNER" $((${U%.*} - T / 100)) "${LINE%% *}" "${TOKEN:--}" "$COMM"
}

# find_smi PATH -> SMI
find_smi() {
  SMI=$1
  if [ -n "$SMI" ]; then
    [ -x "$SMI" ] || SMI=
    return
  fi
  SMI=$(command -v nvidia-smi) && return
  for SMI in /usr/bin /usr/local/bin /usr/local/nvidia/bin /opt/nvidia/bin /usr/lib/wsl/lib /run/current-system/sw/bin; do
    SMI=$SMI/nvidia-smi
    [ -x "$SMI" ] && return
  done
  SMI=
}

# probe SMI TIMEOUT GPU_FIELDS APP_FIELDS
op_probe() {
  decode "$1"
  find_smi "$V"
  uptime_now
  read -r BOOT </proc/sys/kernel/random/boot_id
  read -r HOSTNAME </proc/sys/kernel/hostname
  section boot "$BOOT"
  section hostname "$HOSTNAME"
  section epoch "$(date +%s)"
  section searched "$PATH"
  section smi "$SMI"
  if [ -z "$SMI" ]; then
    end ok 127 127
    return
  fi
  section gpus
  timeout -k 2 "$2" "$SMI" "--query-gpu=$3" --format=csv,noheader,nounits 2>/dev/null </dev/null
  GPUS=$?
  APPS=$(timeout -k 2 "$2" "$SMI" "--query-compute-apps=$4" --format=csv,noheader,nounits 2>/dev/null </dev/null)
  STATUS=$?
  section apps
  printf '%s\n' "$APPS"
  section processes
  printf '%s\n' "$APPS" | while IFS=' ,' read -r _ PID _; do
    case $PID in '' | *[!0-9]*) continue ;; esac
    process_line "$PID"
  done
  end ok $GPUS $STATUS
}

op_ping() { end ok; }

# serve MARK
serve() {
  MARK=$1
  ID=hello
  read -r HOSTNAME </proc/sys/kernel/hostname
  read -r BOOT </proc/sys/kernel/random/boot_id
  MISSING=
  for V in setsid flock timeout tail head stat readlink ln mkdir grep find; do
    command -v $V >/dev/null || MISSING="$MISSING,$V"
  done
  end ok "$BOOT" "$HOSTNAME" "${MISSING#,}"
  while IFS= read -r LINE; do
    set -f
    # shellcheck disable=SC2086
    set -- $LINE
    set +f
    [ $# -ge 2 ] || continue
    ID=$1
    OP=$2
    shift 2
    case $OP in
      root | start | state | stop | go | clean | read | follow | events | probe | ping) "op_$OP" "$@" ;;
      *) end failed unknown "$OP" ;;
    esac
  done
}
