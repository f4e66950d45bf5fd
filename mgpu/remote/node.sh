# The node's half of mgpu: sent over a channel's stdin, held in $program, never written to disk on the node.
#
# It needs a POSIX sh (dash, busybox, bash), coreutils, and util-linux's setsid and flock. The serve loop reads one
# framed request a line, `ID OP WORD...`, and answers with text that ends in a line `MARK ID end STATUS WORD...`. MARK is
# random per channel, so that login noise can never be taken for an answer. Words are %b-escaped (`\0ooo`), "-" is empty;
# a long one is `@N`: then N raw bytes and a line with a dot follow the request (a shell reads lines byte by byte).
#
# Run directory of an attempt, $root/JOB.ATTEMPT (records are symlinks: atomic, and they need no data block on a full disk):
#   pid      -> PID:TICKS:BOOT:TOKEN  the once-only gate, made by the supervisor itself; or `fenced`
#   reaper   -> PID:TICKS             the process that ends the job, where one was needed
#   ready    -> UPTIME                prepared and waiting for `go` (several nodes)
#   go       -> run|abort             made by whoever comes first
#   started  -> PID:UPTIME:NOTICE     the shell that runs the job; NOTICE `home` = the wanted directory is not here
#   deadline -> UPTIME                re-read by the timer, so that the limit can be moved; whole seconds, rounded up
#   signal   -> [B:]NUMBER@SECONDS    to be sent so long before the deadline; B: to the job's first process alone
#   signalled -> UPTIME               it was, once
#   timer    -> PID:TICKS             the process that waits for the deadline, where there is or was one
#   stop     -> CANCEL|TIMEOUT|...    written before TERM; OOM: the kernel ended it for want of memory;
#                                     REQUEUE: the job itself wants to be queued again
#   exit     -> CODE:UPTIME           or `fail:CLASS:TEXT` where the command never ran
#   clean    -> UPTIME                nothing of the job is left on the node
#   append   -> 1                     the job's own files were begun by an earlier attempt
#   stdout.base, stderr.base -> SIZE  of such a file before this attempt: what follows is its output
#   sizes    -> OUT,ERR               how much was written in all; a later attempt may write on in the same files
#   script job stdout stderr step bin/scontrol
#
# Two shells watch over a job. The supervisor leads the session, passes the gate and takes the leases by a chain of
# flock; the runner, inside that chain, runs the job in its foreground. The supervisor holds no lease itself: so the
# leases are free before `clean` says so. Descriptors of a job: 9 its run directory, the leases wherever flock put them, 3
# and 4 (kept free of leases) its output until it has opened that as 1 and 2.
#
# Variables are in small letters: an assignment to one that the login exports would change the job's environment.
# shellcheck shell=sh disable=SC2016

for value in /usr/local/bin /usr/bin /bin /usr/local/sbin /usr/sbin /sbin; do
  case :$PATH: in *:$value:*) ;; *) PATH=$PATH:$value ;; esac
done

# tool NAME -> tool, its path: a busybox that prefers its own applets lacks what is needed of these
tool() {
  tool=
  IFS=:
  for piece in $PATH; do
    if [ -x "$piece/$1" ]; then
      tool=$piece/$1
      break
    fi
  done
  unset IFS
}

tool setsid
setsid=$tool
tool flock
flock=$tool
tool find
find=$tool
tool tail
tail=$tool
tool timeout
timeout=$tool

end() { printf '\n%s %s end %s\n' "$mark" "$id" "$*"; }

# at_home PATH -> value, with a leading ~ resolved
at_home() {
  value=$1
  # shellcheck disable=SC2088
  case $value in "~" | "~/"*) value=${HOME-}${value#?} ;; esac
}

# decode WORD -> value
decode() {
  case $1 in
    -) value= ;;
    *\\*) value=$(printf '%b.' "$1"); value=${value%.} ;;
    *) value=$1 ;;
  esac
}

uptime_now() { read -r uptime _ </proc/uptime; }

# stat_of PID -> stat, from its state on; the name before that may hold anything, also a newline
stat_of() {
  stat=
  [ -n "$1" ] || return 1
  { while read -r piece; do stat="$stat $piece"; done <"/proc/$1/stat"; } 2>/dev/null || return 1
  stat=${stat##*) }
}

# ticks_of PID -> ticks, the start time in clock ticks since boot; fails where no such process lives (zombies do not)
ticks_of() {
  ticks=
  stat_of "$1" || return 1
  case $stat in '' | Z* | X*) return 1 ;; esac
  # shellcheck disable=SC2086
  set -- $stat
  ticks=${20}
}

# parent_of PID -> parent
parent_of() {
  stat_of "$1"
  parent=${stat#* }
  parent=${parent%% *}
}

# link_of NAME -> value, the content of a record in $dir; fails where it is not there
link_of() {
  value=
  [ -L "$dir/$1" ] || return 1
  value=$(readlink "$dir/$1")
}

# record NAME CONTENT: first one wins
record() { ln -s "$2" "$dir/$1" 2>/dev/null; }

event() { printf '%s\n' "${dir##*/} $*" >>"${dir%/*}/events"; } 2>/dev/null

# --- the supervisor -------------------------------------------------------------------------------------------------

# supervise DIR UUIDS GANG SHELL MODE WORKDIR OUT ERR LIMIT
supervise() {
  program=$MGPU_P
  mask=$MGPU_MASK
  nofork=$MGPU_F
  unset MGPU_P MGPU_MASK MGPU_F
  dir=$1
  trap : TERM INT HUP QUIT USR1 USR2
  read -r boot </proc/sys/kernel/random/boot_id
  ticks_of $$
  record pid "$$:$ticks:$boot:$MGPU_TOKEN" || exit 0
  gate=$$:$ticks:$boot
  exec 9<"$dir"
  if [ "$9" != - ]; then
    MGPU_P=$program MGPU_KEY=$MGPU_TOKEN env -u MGPU_TOKEN "$setsid" sh -c 'eval "$MGPU_P"; timer "$@"' mgpu-timer "$dir" 9<&- &
    timer=$!
  fi
  take_leases "$@"
  [ "$9" = - ] || kill "$timer" 2>/dev/null
  # one that came later, with a limit that the job did not begin with
  living timer && kill "$living" 2>/dev/null
  # the runner was killed, or a lease was not to be had
  uptime_now
  link_of exit || record exit "fail:supervisor:the job's supervising shell was killed:$uptime"
  exec 9<&-
  MGPU_KEY=$MGPU_TOKEN
  sweep "$$"
  finish
}

# finish: the last word about an attempt, once nothing of it is left
finish() {
  sizes=-
  if sizes_of; then
    # a later attempt goes on in the job's own files
    if [ -L "$dir/stdout" ] || [ -L "$dir/stderr" ]; then record sizes "$first,$second"; fi
    sizes=$first,$second,
  fi
  uptime_now
  record clean "$uptime"
  link_of stop
  why=${value:--}
  link_of exit
  event "ended $why $sizes $value"
}

# sizes_of -> first, second: how much this attempt has written to stdout and stderr; fails where a file is gone
sizes_of() {
  link_of sizes && first=${value%,*} && second=${value#*,} && return
  first=$(stat -L -c %s "$dir/stdout" "$dir/stderr" 2>/dev/null) || return
  second=${first##*[!0-9]}
  first=${first%%[!0-9]*}
  base_of stdout
  first=$((first > base ? first - base : 0))
  base_of stderr
  second=$((second > base ? second - base : 0))
}

# base_of stdout|stderr -> base, where in that file this attempt begins
base_of() {
  base=0
  link_of "$1.base" && base=$value
}

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

# timer DIR: fires at the deadline, which may be moved while it sleeps (USR1 wakes it)
timer() {
  program=$MGPU_P
  unset MGPU_P
  dir=$1
  nap=
  trap '[ -z "$nap" ] || kill "$nap"; exit 0' TERM
  trap '[ -z "$nap" ] || kill "$nap"' USR1
  ticks_of $$
  ln -sfn "$$:$ticks" "$dir/timer" 2>/dev/null
  while [ ! -L "$dir/exit" ]; do
    if link_of deadline; then
      uptime_now
      left=$((value - ${uptime%.*}))
      if [ $left -le 0 ]; then
        record stop TIMEOUT && launch_reaper "$MGPU_KEY" 10
        exit 0
      fi
      if link_of signal && [ ! -L "$dir/signalled" ] && [ -L "$dir/started" ]; then
        if [ $left -le "${value##*@}" ]; then
          record signalled "$uptime" && warn "${value%@*}"
        else
          left=$((left - ${value##*@}))
        fi
      fi
      [ $left -gt 10 ] && left=10
    elif [ -L "$dir/started" ]; then
      left=10
    else
      left=1
    fi
    sleep $left &
    nap=$!
    wait $nap
    nap=
  done
}

# warn [B:]NUMBER: send the signal
warn() {
  case $1 in
    B:*) link_of started; value=$(grep -slE "\) [A-Za-z] ${value%%:*} " /proc/[0-9]*/stat | tr -dc '0-9\n') ;;
    *) leader; members "$leader" ;;
  esac
  # shellcheck disable=SC2086
  [ -z "$value" ] || kill "-${1#B:}" $value 2>/dev/null
}

# living NAME -> living, the pid in a record PID:TICKS if it is still that process
living() {
  link_of "$1" || return
  living=${value%%:*}
  ticks_of "$living" && [ "$ticks" = "${value#*:}" ]
}

# --- the runner -----------------------------------------------------------------------------------------------------

# fail CLASS TEXT: of one line, and short enough for a record
fail() {
  uptime_now
  value=$(printf '%.1000s' "$2" | tr '\n' ' ')
  record exit "fail:$1:$value:$uptime"
  exit 0
}

# enter MODE DIR -> notice
enter() {
  notice=-
  printf 'entering the working directory %s' "$2" >"$dir/step" 2>/dev/null
  if [ -z "$2" ]; then
    cd 2>/dev/null || fail node "the home directory ${HOME-} cannot be entered"
  elif [ "$1" = must ] || [ -d "$2" ]; then
    if ! cd "$2" 2>/dev/null; then
      [ -d "$2" ] && fail node "working directory $2 cannot be entered"
      [ -e "$2" ] && fail directory "working directory $2 is not a directory"
      fail directory "working directory $2 does not exist"
    fi
  else
    notice=home
    cd 2>/dev/null || fail node "the home directory ${HOME-} cannot be entered"
  fi
  printf 'starting' >"$dir/step" 2>/dev/null
}

# outputs OUT ERR (where `true` makes a file: with `:`, a special builtin, a failure would end the shell): the job's own files if it asked for some, with the run directory pointing at them
outputs() {
  if [ -z "$1" ]; then
    { true >"$dir/stdout"; } 2>/dev/null || fail node "cannot write to $dir"
    exec 3>>"$dir/stdout"
  else
    own_file "$1" stdout
    exec 3>>"$value"
    ln -sf "$value" "$dir/stdout"
  fi
  if [ -z "$2" ] && [ -z "$1" ]; then
    { true >"$dir/stderr"; } 2>/dev/null || fail node "cannot write to $dir"
    exec 4>>"$dir/stderr"
  elif [ -z "$2" ] || [ "$2" = "$1" ]; then
    exec 4>&3
    true >"$dir/stderr"
  else
    own_file "$2" stderr
    exec 4>>"$value"
    ln -sf "$value" "$dir/stderr"
  fi
}

# own_file FILE stdout|stderr -> value, its full path. It is made empty, unless an earlier attempt has written there
own_file() {
  case $1 in /*) value=$1 ;; *) value=${PWD%/}/$1 ;; esac
  if [ -L "$dir/append" ]; then
    { true >>"$value"; } 2>/dev/null || fail directory "cannot write $value"
    record "$2.base" "$(stat -L -c %s "$value")"
  else
    { true >"$value"; } 2>/dev/null || fail directory "cannot write $value"
  fi
}

# await_go: several nodes start together or not at all
await_go() {
  uptime_now
  record ready "$uptime"
  event "ready $uptime $gate"
  give_up_at=$((${uptime%.*} + 300))
  while ! link_of go; do
    [ -L "$dir/stop" ] && fail aborted "stopped before it began"
    uptime_now
    [ "${uptime%.*}" -ge $give_up_at ] && record go abort
    sleep 0.05
  done
  [ "$value" = run ] || fail aborted "the other nodes were not ready"
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

# oom_kills -> kills, how many processes of our control group the kernel has killed for want of memory, if it tells
oom_kills() {
  kills=0
  while IFS=: read -r _ piece value; do
    case $piece in
      '') value=/sys/fs/cgroup$value/memory.events ;;
      memory) value=/sys/fs/cgroup/memory$value/memory.oom_control ;;
      *) continue ;;
    esac
    { while read -r piece count; do [ "$piece" = oom_kill ] && kills=$((kills + count)); done <"$value"; } 2>/dev/null
  done </proc/self/cgroup
}

# run DIR UUIDS GANG SHELL MODE WORKDIR OUT ERR LIMIT
run() {
  gate=$MGPU_GATE
  mask=$MGPU_MASK
  unset MGPU_P MGPU_MASK MGPU_GATE
  dir=$1
  trap : TERM INT HUP QUIT USR1 USR2
  enter "$5" "$6"
  tool "$4"
  [ -n "$tool" ] || tool sh
  umask "$mask"
  outputs "$7" "$8"
  [ "$3" = 1 ] && await_go
  [ -L "$dir/stop" ] && fail aborted "stopped before it began"
  leases_in_place "$2" || fail newcomer "the lease of $uuid was removed in between"
  uptime_now
  [ "$9" = - ] || record deadline $((${uptime%.*} + $9 + 1))
  record started "$$:$uptime:$notice" || fail node "cannot record the start (disk full?)"
  event "started $uptime $notice $gate"
  oom_kills
  kills_before=$kills
  "$tool" "$dir/script"
  code=$?
  if [ $code = 137 ]; then
    oom_kills
    [ $kills -gt $kills_before ] && record stop OOM
  fi
  uptime_now
  record exit "$code:$uptime"
  exit 0
}

# --- ending a job ---------------------------------------------------------------------------------------------------

# members SUPERVISOR -> value, pids of the job's processes but for those that watch over it. Three nets: the session, the
# token in the environment, the inherited descriptor of the run directory; a process may have left any of them.
# Another's processes cannot be signalled anyway; a session counts only while its leader is ours.
members() {
  found=
  if [ -n "$1" ]; then
    found=$(grep -slE "\\) [A-Za-z] [0-9]+ [0-9]+ $1 " /proc/[0-9]*/stat)
  fi
  found="$found
$(grep -slaz "^MGPU_TOKEN=$MGPU_KEY\$" /proc/[0-9]*/environ)
$("$find" /proc/[0-9]*/fd -lname "$(cd -P "$dir" && pwd)" 2>/dev/null)"
  keep=" $$ $1 "
  if [ -n "$1" ] && link_of started; then
    parent=${value%%:*}
    while [ -n "$parent" ] && [ "$parent" -gt 1 ] && [ "$parent" != "$1" ]; do
      keep="$keep$parent "
      parent_of "$parent" || break
    done
  fi
  value=
  for member in $found; do
    member=${member#/proc/}
    member=${member%%/*}
    case "$keep" in *" $member "*) continue ;; esac
    ticks_of "$member" || continue
    keep="$keep$member "
    value="$value$member "
  done
}

# sweep SUPERVISOR: end what a finished job left behind; TERM, a second, KILL until none is left
sweep() {
  members "$1"
  [ -z "$value" ] && return
  event "leftover $value"
  # shellcheck disable=SC2086
  kill -TERM $value 2>/dev/null
  round=0
  nap=0.1
  while :; do
    sleep $nap
    members "$1"
    [ -z "$value" ] && return
    # shellcheck disable=SC2086
    [ $round -ge 10 ] && kill -KILL $value 2>/dev/null
    round=$((round + 1))
    if [ $round -ge 200 ]; then
      record stuck "$value"
      nap=5
    fi
  done
}

# launch_reaper TOKEN GRACE: one at a time
launch_reaper() {
  living reaper && return
  MGPU_P=$program MGPU_KEY=$1 "$setsid" -f sh -c 'eval "$MGPU_P"; reap "$@"' mgpu-reap "$dir" "$2" </dev/null >/dev/null 2>&1
}

# leader -> leader, the supervisor's pid if it is still that process, else empty
leader() {
  link_of pid
  leader=${value%%:*}
  value=${value#*:}
  ticks_of "$leader" && [ "$ticks" = "${value%%:*}" ] && return
  leader=
}

# reap DIR GRACE: TERM, grace, KILL, repeated until none is left
reap() {
  unset MGPU_P
  dir=$1
  ticks_of $$
  ln -sfn "$$:$ticks" "$dir/reaper" 2>/dev/null
  uptime_now
  kill_at=$((${uptime%.*} + $2 + 1))
  told=
  nap=0.02
  while [ -d "$dir" ]; do
    leader
    [ -L "$dir/clean" ] && exit 0
    begun=
    [ -L "$dir/started" ] && begun=1
    members "$leader"
    [ -z "$value" ] && [ -z "$leader" ] && break
    uptime_now
    if [ "${uptime%.*}" -ge $kill_at ]; then
      # a runner that hangs before its job began has to go too
      [ -L "$dir/started" ] || [ -L "$dir/exit" ] || value="$value $leader"
      # shellcheck disable=SC2086
      kill -KILL $value 2>/dev/null
      nap=0.3
      if [ "${uptime%.*}" -ge $((kill_at + 120)) ]; then
        record stuck "$value"
        nap=5
      fi
    elif [ -z "$told" ] && [ -n "$value" ]; then
      # once to each job: what it starts in order to end well is not disturbed. Not counted while there is only the runner
      # (which takes no notice), about to begin
      # shellcheck disable=SC2086
      kill -TERM $value 2>/dev/null
      told=$begun
    fi
    sleep $nap
    [ $nap = 0.02 ] && nap=0.1
  done
  step=
  { read -r step <"$dir/step"; } 2>/dev/null
  uptime_now
  if [ -L "$dir/started" ]; then
    record exit "fail:supervisor:the job's supervising shell was killed:$uptime"
  else
    record exit "fail:node:it hung while $step:$uptime"
  fi
  finish
}

# --- requests -------------------------------------------------------------------------------------------------------

# root DATABASE NODE RUN_DIR
op_root() {
  decode "$3"
  at_home "$value"
  top=${value:-${HOME:-/nonexistent}/.mgpu}
  root=$top/$1/$2
  end ok
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

# What a job finds in its PATH by the name of Slurm's command: to be queued again is all that it can ask for. The wish is
# a record, told to the master by an event; then the job's processes get SIGTERM, but for those that watch over it
scontrol='#!/bin/sh
dir=$(cd "${0%/*}/.." && pwd) || exit
key=${dir##*/}
if [ $# -ne 2 ] || [ "$1" != requeue ] || [ "$2" != "${key%.*}" ]; then
  echo "scontrol: here it knows one thing, for the job that it runs in: scontrol requeue ${key%.*}" >&2; exit 1
fi
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
  member=$(sed "s/.*) [A-Za-z] \([0-9]*\) .*/\1/" "/proc/$member/stat")
done
for member in $(grep -slE "\) [A-Za-z] [0-9]+ [0-9]+ $leader " /proc/[0-9]*/stat); do
  member=${member#/proc/}; member=${member%/stat}
  case $keep in *" $member "*) ;; *) kill -TERM "$member" 2>/dev/null ;; esac
done; exit 0'

# write_files SCRIPT JOB: what is written under names of its own is complete before it gets its name
write_files() {
  failed=
  # the job opens its own streams, so that what a shell says of a killed child ("Killed") is not among its output
  printf 'exec >&3 2>&4 3>&- 4>&-\n' >"$dir/script.$$" || failed=1
  spill "$1" "$dir/script.$$" || failed=1
  [ "$2" = - ] || { rm -f "$dir/job.$$" && spill "$2" "$dir/job.$$"; } || failed=1
  mkdir -p "$dir/bin" && printf '%s\n' "$scontrol" >"$dir/script.$$.s" && chmod 700 "$dir/script.$$.s" || failed=1
  mv -f "$dir/script.$$.s" "$dir/bin/scontrol" || failed=1
  [ -e "$dir/stdout" ] || true >"$dir/stdout" || failed=1
  [ -e "$dir/stderr" ] || true >"$dir/stderr" || failed=1
  [ -z "$failed" ] || return
  [ "$2" = - ] || mv -f "$dir/job.$$" "$dir/job" || return
  mv -f "$dir/script.$$" "$dir/script"
} 2>/dev/null

# start KEY TOKEN UUIDS GANG SHELL MODE WORKDIR OUT ERR LIMIT SCRIPT JOB APPEND SIGNAL
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
  if ! write_files "${11}" "${12}"; then
    # a request sent twice may have passed the gate meanwhile; nothing else may pass it any more
    record pid fenced || { link_of pid && [ "$value" != fenced ] && end already "$value" && return; }
    rm -f "$dir/script.$$" "$dir/job.$$"
    end failed node "cannot write to $dir (disk full or quota reached?)"
    return
  fi
  [ "${13-0}" = 0 ] || record append 1
  [ "${14--}" = - ] || record signal "${14}"
  limit=${10}
  token=$2
  decode "$7"; at_home "$value"; workdir=$value
  decode "$8"; out=$value
  decode "$9"; err=$value
  MGPU_P=$program MGPU_MASK=$mask MGPU_F=$nofork MGPU_TOKEN=$token "$setsid" -f sh -c 'eval "$MGPU_P"; supervise "$@"' "mgpu-job-$1" \
    "$dir" "$3" "$4" "$5" "$6" "$workdir" "$out" "$err" "$limit" </dev/null >/dev/null 2>&1
  end ok
}

# state KEY...: for each a line `KEY NAME VALUE` a record, `KEY alive 1`, `KEY size OUT ERR`; then the uptime and boot id
op_state() {
  for key in "$@"; do
    dir=$root/$key
    [ -d "$dir" ] || continue
    for name in pid ready go started stop exit clean stuck deadline; do
      link_of $name || continue
      printf '%s %s %s\n' "$key" $name "$value"
      if [ $name = pid ]; then
        leader
        [ -n "$leader" ] && printf '%s alive 1\n' "$key"
      fi
    done
    [ -f "$dir/stdout" ] && sizes_of && printf '%s size %s %s\n' "$key" "$first" "$second"
    [ -f "$dir/step" ] && { read -r value <"$dir/step"; printf '%s step %s\n' "$key" "$value"; }
  done
  uptime_now
  read -r boot </proc/sys/kernel/random/boot_id
  end ok "$uptime" "$boot"
}

# unclaimed TOKEN: processes of an attempt live, and nothing is written down about it: somebody removed its run directory
unclaimed() {
  [ ! -L "$dir/pid" ] && [ ! -e "$dir/script" ] && grep -sqaz "^MGPU_TOKEN=$1\$" /proc/[0-9]*/environ
}

# stop KEY TOKEN REASON GRACE: fence what has not begun, end what has
op_stop() {
  dir=$root/$1
  [ -d "$dir" ] || mkdir -p "$dir" 2>/dev/null
  if unclaimed "$2"; then
    read -r boot </proc/sys/kernel/random/boot_id
    uptime_now
    record started "0:$uptime:-"
    record pid "0:0:$boot:$2"
  fi
  if record pid fenced; then
    end ok fenced
    return
  fi
  if ! link_of pid; then
    end failed node "cannot lay a fence in $dir (disk full, or no home?)"
  elif [ "$value" = fenced ]; then
    end ok fenced
  elif [ "${value##*:}" != "$2" ]; then
    end failed token "$value"
  elif [ -L "$dir/clean" ]; then
    end ok ended
  else
    record stop "$3"
    launch_reaper "$2" "$4"
    end ok stopping
  fi
}

# go KEY run|abort
op_go() {
  dir=$root/$1
  record go "$2"
  link_of go
  end ok "$value"
}

# limit KEY TOKEN SECONDS|-: the deadline of what runs is so long after its start, or there is none
op_limit() {
  dir=$root/$1
  link_of pid
  if [ "${value##*:}" != "$2" ] || [ -L "$dir/exit" ] || ! link_of started; then
    end ok late
    return
  fi
  if [ "$3" = - ]; then
    rm -f "$dir/deadline"
  else
    value=${value#*:}
    ln -sfn $((${value%%.*} + $3 + 1)) "$dir/deadline" 2>/dev/null
  fi || {
    end failed node "cannot write to $dir (disk full?)"
    return
  }
  if living timer; then
    kill -USR1 "$living" 2>/dev/null
  elif [ "$3" != - ]; then
    MGPU_P=$program MGPU_KEY=$2 "$setsid" -f sh -c 'eval "$MGPU_P"; timer "$@"' mgpu-timer "$dir" </dev/null >/dev/null 2>&1
  fi
  end ok
}

# clean KEY...: what is left is a tombstone (late bytes must not start it again)
op_clean() {
  for key in "$@"; do
    dir=$root/$key
    rm -rf "$dir"/script* "$dir"/job* "$dir"/stdout* "$dir"/stderr* "${dir:?}/bin" "$dir/append" "$dir/sizes" "$dir"/signal* \
      "$dir/step" "$dir/ready" "$dir/go" "$dir/started" \
      "$dir/deadline" "$dir/timer" "$dir/stop" "$dir/reaper" "$dir/stuck"
  done
  forget_old
  end ok
}

# forget_old: the oldest tombstones, a few at a time. After a week no request can be on its way any more: the kernels give
# a connection up within minutes, and a shell that has not read for so long was stopped by hand
forget_old() {
  "$find" "$root" -mindepth 1 -maxdepth 1 -type d -name '[1-9]*.[1-9]*' -mmin +10080 2>/dev/null | {
    left=20
    while [ $left -gt 0 ] && IFS= read -r dir; do
      is_tombstone || continue
      erase
      left=$((left - 1))
    done
  }
}

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

# events: lines of the events file as they come, until a line (or the end) comes on stdin
op_events() {
  dir=$root/events
  [ -d "$root" ] || mkdir -p "$root" 2>/dev/null
  # it is only a hint: what is lost by cutting it is found by the next look
  size=$(stat -c %s "$dir" 2>/dev/null)
  [ "${size:-0}" -gt 1000000 ] && true >"$dir"
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

section() { printf '\n%s %s section %s\n' "$mark" "$id" "$*"; }

# process_line PID -> pid user age session token command
process_line() {
  { read -r command <"/proc/$1/comm"; } 2>/dev/null || return
  owner=$(stat -c %U "/proc/$1" 2>/dev/null) || return
  token=$(grep -saoz '^MGPU_TOKEN=[0-9a-f]*' "/proc/$1/environ" 2>/dev/null | tr -d '\0')
  token=${token#MGPU_TOKEN=}
  ticks_of "$1" || return
  session=${stat#* * * }
  # 100 ticks a second: USER_HZ is fixed for user space
  printf '%s %s %s %s %s %s\n' "$1" "$owner" $((${uptime%.*} - ticks / 100)) "${session%% *}" "${token:--}" "$command"
}

# find_smi PATH -> smi
find_smi() {
  smi=$1
  if [ -n "$smi" ]; then
    [ -x "$smi" ] || smi=
    return
  fi
  smi=$(command -v nvidia-smi) && return
  for smi in /usr/bin /usr/local/bin /usr/local/nvidia/bin /opt/nvidia/bin /usr/lib/wsl/lib /run/current-system/sw/bin; do
    smi=$smi/nvidia-smi
    [ -x "$smi" ] && return
  done
  smi=
}

# probe SMI TIMEOUT GPU_FIELDS APP_FIELDS
op_probe() {
  decode "$1"
  find_smi "$value"
  uptime_now
  read -r boot </proc/sys/kernel/random/boot_id
  read -r hostname </proc/sys/kernel/hostname
  section boot "$boot"
  section hostname "$hostname"
  section epoch "$(date +%s)"
  section searched "$PATH"
  section smi "$smi"
  if [ -z "$smi" ]; then
    end ok 127 127
    return
  fi
  section gpus
  "$timeout" -k 2 "$2" "$smi" "--query-gpu=$3" --format=csv,noheader,nounits 2>/dev/null </dev/null
  gpus=$?
  apps=$("$timeout" -k 2 "$2" "$smi" "--query-compute-apps=$4" --format=csv,noheader,nounits 2>/dev/null </dev/null)
  status=$?
  section apps
  printf '%s\n' "$apps"
  section processes
  printf '%s\n' "$apps" | while IFS=' ,' read -r _ pid _; do
    case $pid in '' | *[!0-9]*) continue ;; esac
    process_line "$pid"
  done
  end ok $gpus $status
}

# --- residue --------------------------------------------------------------------------------------------------------

# is_tombstone: all of the attempt in $dir but its records is cleaned away
is_tombstone() { [ -L "$dir/pid" ] && [ ! -e "$dir/script" ] && [ ! -e "$dir/stdout" ] && [ ! -L "$dir/stdout" ]; }

# named PLACE: it is DATABASE/NODE/JOB.ATTEMPT as we name them, a real directory below $top, and no link leads there
named() {
  case $1 in */*/*/* | *[!A-Za-z0-9._/-]*) return 1 ;; */[A-Za-z0-9]*/[1-9]*.[1-9]*) ;; *) return 1 ;; esac
  key=${1##*/}
  case ${key%%.*}${key#*.} in *[!0-9]*) return 1 ;; esac
  piece=${1%%/*}
  case $piece in *[!0-9a-f]*) return 1 ;; esac
  [ ${#piece} = 32 ] || return 1
  for piece in "$top/$piece" "$top/${1%/*}" "$top/$1"; do
    [ -d "$piece" ] && [ ! -L "$piece" ] || return 1
  done
}

# survey: what `condition` looks at, for all run directories at once
survey() {
  real=$(cd -P "$top" 2>/dev/null && pwd)
  read -r boot </proc/sys/kernel/random/boot_id
  opened=$("$find" /proc/[0-9]*/fd -type l -printf '%l/\n' 2>/dev/null | grep -F "$real/")
  tokens=$(grep -sahozE '^MGPU_(TOKEN|KEY)=[0-9a-f]+' /proc/[0-9]*/environ | tr '\0' '\n')
}

# lives: some process of the attempt in $dir, or one that watches over it
lives() {
  case $opened in *"$real/$place/"*) return ;; esac
  link_of reaper && ticks_of "${value%%:*}" && [ "$ticks" = "${value#*:}" ] && return
  link_of pid && [ "$value" != fenced ] || return 1
  gate=$value
  case $tokens in *"=${gate##*:}"*) return ;; esac
  leader
  [ -n "$leader" ] && return
  # without its leader a session may be somebody else's by now: if in doubt, it is not
  [ -L "$dir/clean" ] && return 1
  case $gate in *":$boot:"*) grep -sqE "\\) [A-Za-z] [0-9]+ [0-9]+ ${gate%%:*} " /proc/[0-9]*/stat ;; *) return 1 ;; esac
}

# condition -> value, of the attempt in $dir, which is $place below $top; after a survey
condition() {
  if lives; then
    value=alive
  elif ! link_of pid; then
    value=unstarted # or a late request is just about to
  elif is_tombstone; then
    value=tombstone
  elif [ -L "$dir/clean" ] || [ "$value" = fenced ]; then
    value=ended
  else
    case $value in
      *":$boot:"*) value=died ;; # those who watched over it were killed, and nothing of it is left
      *) value=elsewhere ;;      # on another machine with the same home, or before a reboot
    esac
  fi
}

# erase: $dir, its gate last
erase() {
  for piece in "$dir"/* "$dir"/.[!.]*; do
    [ "$piece" = "$dir/pid" ] || rm -rf "$piece"
  done
  rm -rf "$dir"
  [ ! -e "$dir" ]
} 2>/dev/null

# residue: everything of ours under this account, and all leases
op_residue() {
  survey
  section base "$real"
  section sizes
  du -k -d 3 "$real" 2>/dev/null
  section runs
  "$find" "$real" -mindepth 3 -maxdepth 3 -type d -printf '%T@ %P\n' 2>/dev/null | while IFS=' ' read -r since place; do
    named "$place" || continue
    dir=$top/$place
    condition
    printf '%s %s %s\n' "$place" "$since" $value
  done
  section events
  "$find" "$real" -mindepth 3 -maxdepth 3 -type f -name events -printf '%P %T@ %k\n' 2>/dev/null
  section leases
  locks=$(cat /proc/locks /proc/locks /proc/locks 2>/dev/null) # see busy_lease
  for lease in /tmp/mgpu.lease.*; do
    if [ ! -d "$lease" ] || [ -L "$lease" ]; then continue; fi
    value=$(stat -c '%i %Y %U' "$lease") || continue
    held=free
    case $locks in *":${value%% *} "*) held=held ;; esac
    printf '%s %s %s\n' "${lease#/tmp/mgpu.lease.}" "$held" "${value#* }"
  done
  end ok "$(date +%s)"
}

# remove AGE PLACE...: those run directories in which nothing lives and which have not changed for AGE seconds; a line
# `PLACE WORD` for each: removed, alive, young, absent, or stays (it cannot be removed)
op_remove() {
  limit=$1
  shift
  survey
  now=$(date +%s)
  for place in "$@"; do
    if named "$place"; then
      dir=$top/$place
      age=$((now - $(stat -c %Y "$dir")))
      condition
      remove_one
    else
      value=absent
    fi
    printf '%s %s\n' "$place" $value
  done
  for place in "$@"; do
    remove_empty "${place%/*}"
  done
  end ok
}

remove_one() {
  [ "$value" = alive ] && return
  if [ "$age" -lt "$limit" ]; then
    value=young
  elif [ "$value" = unstarted ] && ! record pid fenced; then
    value=alive
  elif erase; then
    value=removed
  else
    value=stays
  fi
}

# remove_empty PLACE: the directory of a node of another database that has nothing here, and that no master listens to
remove_empty() {
  [ "$top/$1" != "$root" ] && [ -d "$top/$1" ] || return
  case $opened in *"$real/$1/events/"*) return ;; esac
  set -- "$top/$1" "$top/$1"/*
  [ $# = 2 ] && [ "$2" = "$1/events" ] && rm -f "$2"
  rmdir "$1" "${1%/*}"
} 2>/dev/null

# remove_leases NAME...: those of this account that nobody holds; a line `NAME WORD` for each: removed, absent, foreign, held
op_remove_leases() {
  for name in "$@"; do
    lease=/tmp/mgpu.lease.$name
    case $name in
      */*) value=absent ;;
      *)
        if [ ! -d "$lease" ] || [ -L "$lease" ]; then
          value=absent
        elif [ ! -O "$lease" ]; then
          value=foreign
        elif "$flock" -n -E 75 "$lease" rmdir "$lease" 2>/dev/null; then
          value=removed
        else
          value=held
        fi
        ;;
    esac
    printf '%s %s\n' "$name" $value
  done
  end ok
}

op_ping() { end ok; }

# serve MARK
serve() {
  mark=$1
  id=hello
  mask=$(umask)
  umask 077
  case $("$flock" --help 2>&1) in *--no-fork*) nofork=-F ;; *) nofork= ;; esac
  read -r hostname </proc/sys/kernel/hostname
  read -r boot </proc/sys/kernel/random/boot_id
  missing=
  for value in setsid flock timeout tail head stat readlink ln mkdir grep find env; do
    command -v $value >/dev/null || missing="$missing,$value"
  done
  for value in "$setsid" "$flock"; do
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
      root | start | state | stop | go | limit | clean | read | follow | events | probe | ping | residue | remove | remove_leases) "op_$operation" "$@" ;;
      *) end failed unknown "$operation" ;;
    esac
  done
}
