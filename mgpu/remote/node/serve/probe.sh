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
