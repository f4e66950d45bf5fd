# What the node is and what its GPUs do.
#
# The answer is kept in `told` and written at once: each piece by itself would be a message of its own, and most of what a
# probe costs both ends is how many programs it starts and how many messages it is.

# tell TEXT: a line of the answer
tell() {
  told="$told$1
"
}

# part NAME WORD...: as `section`
part() {
  told="$told
$mark $id section $*
"
}

# process_line PID: tells `pid user age session token command`, if there is such a process
process_line() {
  { read -r command <"/proc/$1/comm"; } 2>/dev/null || {
    hidden_line "$1"
    return
  }
  owner=$(stat -c %U "/proc/$1" 2>/dev/null) || return
  token=$(grep -saoz '^MGPU_TOKEN=[0-9a-f]*' "/proc/$1/environ" 2>/dev/null | tr -d '\0')
  token=${token#MGPU_TOKEN=}
  [ ${#token} -le 64 ] || token=-
  ticks_of "$1" || return
  session=${stat#* * * }
  # 100 ticks a second: USER_HZ is fixed for user space
  tell "$1 $owner $((${uptime%.*} - ticks / 100)) ${session%% *} ${token:--} $command"
}

# hidden_line PID: of a process that the node has, but shows to its owner alone (/proc mounted with hidepid)
hidden_line() {
  case $1 in '' | *[!0-9]*) return ;; esac
  owner=$(stat -c %U "/proc/$1" 2>/dev/null) || {
    case $(kill -0 "$1" 2>&1) in *'not permitted'*) owner=- ;; *) return ;; esac
  }
  tell "$1 $owner - - -"
}

# find_smi PATH -> smi: a path that is given, right or wrong, or the first that is found, or nothing
find_smi() {
  smi=$1
  [ -z "$smi" ] || return
  smi=$(command -v nvidia-smi) && return
  for smi in /usr/bin /usr/local/bin /usr/local/nvidia/bin /opt/nvidia/bin /usr/lib/wsl/lib /run/current-system/sw/bin; do
    smi=$smi/nvidia-smi
    [ -x "$smi" ] && return
  done
  smi=
}

smi_size=1048576 # bytes: thousands of processes

# ask LIMIT_S WORD... -> answer, nvidia-smi's, and its exit status
ask() {
  at_most $smi_size less query "$@"
  [ "$status" != 153 ] || answer=
  return "$status"
}

# query LIMIT_S WORD...: all that is asked since `began` has twice that time
query() {
  uptime_now
  limit=$((began + 2 * $1 - ${uptime%.*}))
  [ "$limit" -le "$1" ] || limit=$1
  shift
  [ "$limit" -gt 0 ] || return 124
  in_time "$limit" "$smi" "$@" 2>/dev/null
}

# look LIMIT_S FIELDS: what is asked at every look
look() {
  query "$1" "--query-gpu=$2" --format=csv,noheader,nounits || return
  printf '\n%s\n' "$mark $id section pids"
  query "$1" -q -d PIDS
}

# ask_gpus LIMIT_S FIELDS -> answer, the rows and, where nothing was wrong with these, the section of processes below;
# gpus_status, pids_status; fields, those of FIELDS that the driver knows
ask_gpus() {
  fields=$2
  while :; do
    at_most $smi_size less look "$1" "$fields"
    gpus_status=$status
    case $answer in *"$mark $id section pids"*) gpus_status=0 pids_status=$status ;; esac
    if [ "$gpus_status" != 2 ] || [ ${#answer} -gt 4096 ]; then break; fi
    leave_out_unknown "$1" || break
  done
  case $gpus_status$pids_status in
    153*) answer= ;;
    0153)
      ask "$1" "--query-gpu=$fields" --format=csv,noheader,nounits
      gpus_status=$?
      ;;
  esac
}

# leave_out_unknown LIMIT_S -> fields, without the one that the driver, by its answer, does not know
leave_out_unknown() {
  row=$answer
  case $answer in *'Field "'*) ;; *) bounded "$1" 4096 more sh -c 'exec "$@" 2>&1' sh "$smi" "--query-gpu=$fields" --format=csv ;; esac
  unknown=${answer#*Field \"}
  unknown=${unknown%%\"*}
  answer=$row
  case ,$fields, in *,"$unknown",*) ;; *) return 1 ;; esac
  fields=,$fields,
  fields=${fields%%",$unknown,"*},${fields#*",$unknown,"}
  fields=${fields#,}
  fields=${fields%,}
}

# tell_processes: those that `answer` names
tell_processes() {
  part processes
  named=
  most_named=4096 # who names more is not believed (see the reader)
  set -f
  IFS='
'
  for line in $answer; do
    case $line in *'Process ID'*) [ ${#line} -le 300 ] || continue ;; *) continue ;; esac
    case ${line%%:*} in *'Process ID'*) named="$named ${line#*:}" most_named=$((most_named - 1)) ;; esac
    [ $most_named -ge 0 ] || break
  done
  unset IFS
  [ $most_named -ge 0 ] || named=
  for value in $named; do process_line "$value"; done
  set +f
}

# see_leases -> obstructed, with those GPUs that `answer` names (as rows, or as `nvidia-smi -L` does instances) of which no
# job could take the lease, whoever has put there what is in its place
see_leases() {
  most_named=600
  set -f
  IFS='
'
  for line in $answer; do
    [ $((most_named -= 1)) -ge 0 ] || break
    [ ${#line} -le 300 ] || continue
    case $line in
      *'(UUID: MIG-'*) value=MIG-${line##*'(UUID: MIG-'} ;;
      [0-9]*', '*) value=${line#*, } ;;
      *) continue ;;
    esac
    value=${value%%[,)]*}
    case $value in '' | *[!A-Za-z0-9/-]*) continue ;; esac
    lease=$value
    while :; do
      case $lease in */*) lease=${lease%%/*}_${lease#*/} ;; *) break ;; esac
    done
    lease=/tmp/mgpu.lease.$lease
    if [ -e "$lease" ] || [ -L "$lease" ]; then
      is_lease && continue
    elif [ -w /tmp ]; then
      continue
    fi
    obstructed="$obstructed$value $(stat -c %U "$lease" 2>/dev/null)
"
  done
  unset IFS
  set +f
}

# ask_all LIMIT_S FIELDS SLOW: all of nvidia-smi. Once it hangs it is not asked again
ask_all() {
  pids_status=127
  ask_gpus "$1" "$2"
  part fields "$fields"
  part gpus
  tell "$answer"
  obstructed=
  see_leases
  case $gpus_status in 124 | 153) return ;; esac
  case $answer in *', Enabled,'*) cut=1 ;; *) cut= ;; esac
  if [ "$pids_status" = 127 ]; then
    ask "$1" -q -d PIDS
    pids_status=$?
    part pids
    tell "$answer"
  fi
  tell_processes
  case $pids_status in 124 | 153) return ;; esac
  if [ -n "$cut" ]; then
    ask "$1" -L
    case $status in 124 | 153) pids_status=$status ;; esac
    part listed
    tell "$answer"
    see_leases
    ask "$1"
    part table
    tell "$answer"
  fi
  [ "$3" = 1 ] || return
  ask "$1" topo -m || return # what it says is for the order of GPUs alone
  part topology
  tell "$answer"
}

# ask_machine SLOW: what there is besides GPUs
ask_machine() {
  read -r load _ </proc/loadavg
  while read -r name value _; do
    case $name in
      MemTotal:) total=$value ;;
      MemAvailable:) break ;;
    esac
  done </proc/meminfo
  part facts
  tell "load $load"
  tell "memory $total $value"
  [ "$1" = 1 ] || return
  tell "cpus $(nproc)"
  place=${root%/*/*}
  [ -d "$place" ] || place=${HOME:-/}
  value=$("$timeout" -k 1 5 df -Pk "$place" 2>/dev/null | {
    read -r _
    read -r _ _ _ value _ && printf %s "$value"
  }) && tell "disk $value"
  part kernel
  if log=$("$timeout" -k 1 5 dmesg 2>/dev/null); then
    tell "$(printf '%s\n' "$log" | grep -a 'NVRM: Xid' | tail -n 5)"
  else
    tell -
  fi
}

# ask_keepout: who has put this file here withholds the machine. It lies beside the leases, where everybody may write
ask_keepout() {
  value=/tmp/mgpu.keepout
  [ -e $value ] || [ -L $value ] || return
  owner=$(stat -c %U $value 2>/dev/null)
  message=
  # a stranger's file: a pipe would hold us up, and so would one without a line end that is large
  [ -f $value ] && [ ! -L $value ] && message=$("$timeout" -k 1 5 head -c 300 $value 2>/dev/null)
  part keepout
  tell "${owner:-somebody} ${message%%
*}"
}

# ask_check LIMIT_S COMMAND: the site's own
ask_check() {
  bounded "$1" 1000 more sh -c "exec 2>&1
$2"
  part check "$status"
  tell "$answer"
}

# alone LIMIT_S: whether no nvidia-smi of an earlier look is left, by then at least: that of a master before this one may
# just be slow. One that hangs in the kernel cannot be ended: it inherits this lock and keeps it for as long as it is there,
# and none is started beside it
alone() {
  [ -d "$root" ] || (umask 077 && mkdir -p "$root") 2>/dev/null || return 0
  [ -r "$root" ] || return 0
  exec 8<"$root"
  "$flock" -n -E 75 8
  [ $? = 75 ] || return 0
  "$flock" -w "$1" -E 75 8
  [ $? = 75 ] || return 0
  gpus_status=75
  pids_status=75
  return 1
}

# probe SMI TIMEOUT FIELDS SLOW CHECK CHECK_TIMEOUT: SLOW 1 = also what seldom changes
op_probe() {
  told=
  decode "$1"
  find_smi "$value"
  uptime_now
  read -r boot </proc/sys/kernel/random/boot_id
  read -r hostname </proc/sys/kernel/hostname
  part boot "$boot"
  part hostname "$hostname"
  part searched "$PATH"
  part smi "$smi"
  ask_machine "$4"
  ask_keepout
  decode "$5"
  [ -z "$value" ] || ask_check "$6" "$value"
  gpus_status=127
  pids_status=127
  uptime_now
  began=${uptime%.*}
  if [ -x "$smi" ] && alone "$2"; then
    uptime_now
    asked=${uptime%.*}
    ask_all "$2" "$3" "$4"
    # it ended, so whatever it has left behind may keep the lock's file open, but not the lock
    case $gpus_status$pids_status in *124*) ;; *) "$flock" -u 8 ;; esac
    part obstructed
    tell "$obstructed"
    uptime_now
    part took $((${uptime%.*} - asked))
  fi
  exec 8<&-
  [ "$4" != 1 ] || part epoch "$(date +%s)"  # last: we compare it with the time at which it arrives
  printf '%s\n%s %s end ok %s %s\n' "$told" "$mark" "$id" "$gpus_status" "$pids_status"
}
