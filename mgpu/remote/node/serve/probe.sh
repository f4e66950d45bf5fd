# What the node is and what its GPUs do.

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

# ask LIMIT_S WORD...: nvidia-smi's answer
ask() {
  limit=$1
  shift
  "$timeout" -k 2 "$limit" "$smi" "$@" 2>/dev/null </dev/null
}

# ask_gpus LIMIT_S FIELDS -> gpus, its rows; gpus_status; fields, those of FIELDS that the driver knows
ask_gpus() {
  fields=$2
  while :; do
    gpus=$(ask "$1" "--query-gpu=$fields" --format=csv,noheader,nounits)
    gpus_status=$?
    [ $gpus_status = 2 ] || return
    unknown=$("$timeout" -k 2 "$1" "$smi" "--query-gpu=$fields" --format=csv 2>&1 </dev/null)
    unknown=${unknown#*Field \"}
    unknown=${unknown%%\"*}
    case ,$fields, in *,"$unknown",*) ;; *) return ;; esac
    fields=,$fields,
    fields=${fields%%",$unknown,"*},${fields#*",$unknown,"}
    fields=${fields#,}
    fields=${fields%,}
  done
}

# ask_all LIMIT_S FIELDS SLOW: all of nvidia-smi. Once it hangs it is not asked again
ask_all() {
  pids_status=127
  ask_gpus "$1" "$2"
  section fields "$fields"
  section gpus
  printf '%s\n' "$gpus"
  case $gpus_status in 124 | 137) return ;; esac
  pids=$(ask "$1" -q -d PIDS)
  pids_status=$?
  section pids
  printf '%s\n' "$pids"
  section processes
  printf '%s\n' "$pids" | while IFS=: read -r name pid _; do
    case $name in *'Process ID'*) process_line "${pid# }" ;; esac
  done
  case $pids_status in 124 | 137) return ;; esac
  case $gpus in
    *', Enabled,'*)
      section listed
      ask "$1" -L
      section table
      ask "$1"
      ;;
  esac
  [ "$3" = 1 ] || return
  section topology
  ask "$1" topo -m
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
  section facts
  printf 'load %s\nmemory %s %s\n' "$load" "$total" "$value"
  [ "$1" = 1 ] || return
  printf 'cpus %s\n' "$(nproc)"
  place=${root%/*/*}
  [ -d "$place" ] || place=${HOME:-/}
  "$timeout" -k 1 5 df -Pk "$place" 2>/dev/null | {
    read -r _
    read -r _ _ _ value _ && printf 'disk %s\n' "$value"
  }
  section kernel
  if log=$("$timeout" -k 1 5 dmesg 2>/dev/null); then
    printf '%s\n' "$log" | grep -a 'NVRM: Xid' | tail -n 5
  else
    printf '%s\n' -
  fi
}

# ask_keepout: who has put this file here withholds the machine. It lies beside the leases, where everybody may write
ask_keepout() {
  value=/tmp/mgpu.keepout
  [ -e $value ] || [ -L $value ] || return
  owner=$(stat -c %U $value 2>/dev/null)
  message=
  # only a plain file is read: a pipe would hold us up
  [ -f $value ] && [ ! -L $value ] && [ -r $value ] && read -r message <$value
  section keepout
  printf '%.300s\n' "${owner:-somebody} $message"
}

# ask_check LIMIT_S COMMAND: the site's own
ask_check() {
  log=$("$timeout" -k 2 "$1" sh -c "$2" 2>&1 </dev/null)
  section check $?
  printf '%.1000s\n' "$log"
}

# probe SMI TIMEOUT FIELDS SLOW CHECK CHECK_TIMEOUT: SLOW 1 = also what seldom changes
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
  ask_machine "$4"
  ask_keepout
  decode "$5"
  [ -z "$value" ] || ask_check "$6" "$value"
  if [ -z "$smi" ]; then
    end ok 127 127
    return
  fi
  ask_all "$2" "$3" "$4"
  end ok "$gpus_status" "$pids_status"
}
