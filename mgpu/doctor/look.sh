# What mgpu doctor looks at on a node, all at once. Before it stand `mark`, `root`, `workdir` and `setup`. It needs no more
# than a POSIX sh: what else is missing is what it is to find out. It leaves nothing behind.
#
# The answer: lines `MARK NAME WORD...`, below each what there is to say of it.
# shellcheck disable=SC2154

section() { printf '\n%s %s\n' "$mark" "$*"; }

# bounded WORD...: a file system may hang
bounded() {
  # shellcheck disable=SC2086
  $bound "$@"
}

# at_home PATH -> value, with a leading ~ resolved
at_home() {
  value=$1
  # shellcheck disable=SC2088
  case $value in "~" | "~/"*) value=${HOME-}${value#?} ;; esac
}

look_at_tools() {
  section tools
  for value in setsid flock timeout tail head stat readlink ln mkdir grep find env; do
    found=$(command -v $value) || { printf '%s\n' "$value"; continue; }
    case $value in setsid | flock) ;; *) continue ;; esac
    case $(readlink "$found") in *busybox) printf "util-linux's %s\n" "$value" ;; esac
  done
  for value in tar gzip; do command -v $value >/dev/null || printf '%s (for --ship)\n' "$value"; done
  case $(bounded script --version 2>/dev/null </dev/null) in *util-linux*) ;; *) printf "util-linux's script (for --pty)\n" ;; esac
  [ -n "$bound" ] || ! command -v timeout >/dev/null || printf '%s\n' 'a timeout that takes -k'
}

# look_at_home: a job's files could be made here; the place is the nearest that there is of it
look_at_home() {
  at_home "${root:-~/.mgpu}"
  place=$value
  until [ -z "$place" ] || bounded test -d "$place"; do
    case $? in 124 | 137) break ;; esac # it is there, and hangs
    case $place in */*) place=${place%/*} ;; *) place= ;; esac
  done
  place=${place:-/}
  trial=$place/.mgpu-doctor.$$
  # shellcheck disable=SC2016
  said=$(bounded sh -c 'umask 077; mkdir "$1" && ln -s x "$1/link" && head -c 65536 /dev/zero >"$1/file"' sh "$trial" 2>&1)
  status=$?
  section home $status "$place"
  printf 'home %s\nerror %s\n' "${HOME-}" "$said"
  case $status in 124 | 137) return ;; esac
  bounded rm -rf "$trial" 2>/dev/null
  bounded df -Pk "$place" 2>/dev/null | while read -r _ _ _ free _; do printf 'kib %s\n' "$free"; done
  bounded df -Pi "$place" 2>/dev/null | while read -r _ _ _ free _; do printf 'inodes %s\n' "$free"; done
}

look_at_workdir() {
  [ -n "$workdir" ] || return
  at_home "$workdir"
  # shellcheck disable=SC2016
  said=$(bounded sh -c 'cd "$1"' sh "$value" 2>&1)
  section workdir $?
  printf '%s\n' "$said"
}

# look_at_python: the one that a job would find, and its torch, which is not loaded for that
look_at_python() {
  code='import sys; print("python", sys.version.split()[0], "at", sys.executable)
from importlib.metadata import version; print("torch", version("torch"))'
  shell=$(command -v bash) || shell=/bin/sh
  # shellcheck disable=SC2016
  said=$(bounded env PATH="$path" setup="$setup" code="$code" "$shell" -c 'eval "$setup
  ready=1"
  printf "\nready %s\n" "$ready"
  for name in python python3; do command -v $name >/dev/null && exec $name -c "$code"; done')
  section python $?
  printf '%s\n' "$said"
}

# look_at_locks: leases lie in /tmp, where every account has to be able to make and lock them
look_at_locks() {
  trial=/tmp/mgpu.doctor.$$
  # shellcheck disable=SC2016
  said=$(bounded sh -c 'mkdir -m 755 "$1" && flock -n "$1" true; status=$?; rmdir "$1"; exit $status' sh "$trial" 2>&1)
  section locks $?
  printf 'error %s\n' "$said"
  stat -c 'tmp %a %U' /tmp
  while read -r _ _ _ from at _; do
    [ "$at" = /tmp ] && printf 'mounted %s\n' "$from"
  done </proc/self/mountinfo
  stat -c 'lease %a %U %n %F' /tmp/mgpu.lease.* 2>/dev/null
}

# look_at_logind: whether it ends what a login leaves running
look_at_logind() {
  section logind
  set -- org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager
  if said=$(bounded busctl --system get-property "$@" KillUserProcesses KillOnlyUsers KillExcludeUsers 2>/dev/null); then
    printf 'property\n%s\n' "$said"
  elif [ -d /run/systemd/seats ]; then
    printf 'file\n'
    grep -hsi '^ *KillUserProcesses *=' /usr/lib/systemd/logind.conf.d/*.conf /etc/systemd/logind.conf \
      /etc/systemd/logind.conf.d/*.conf /run/systemd/logind.conf.d/*.conf
  fi
}

{
  section begin "$(date +%s)"
  export LC_ALL=C
  path=$PATH
  for value in /usr/local/bin /usr/bin /bin /usr/local/sbin /usr/sbin /sbin; do
    case :$PATH: in *:$value:*) ;; *) PATH=$PATH:$value ;; esac
  done
  bound='timeout -k 1 5'
  $bound true || bound=
  section account "$(id -un)"
  printf 'shell %s\npath %s\n' "${SHELL-}" "$path"
  look_at_tools
  look_at_home
  look_at_workdir
  look_at_python
  look_at_locks
  look_at_logind
  section end
  exit 0
} </dev/null 2>/dev/null
