# Residue: all that is left of ours under this account, and taking it away. Nothing outside of the run root, nothing that lives.

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
  unplace
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
  section trees
  "$find" "$real" -mindepth 4 -maxdepth 4 -path '*/trees/*' -type f -printf '%P %T@ %k\n' 2>/dev/null
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
# `PLACE WORD` for each: removed, alive, young, absent, or stays (it cannot be removed). Trees that were shipped likewise,
# `used` where they were wanted since
op_remove() {
  limit=$1
  shift
  survey
  now=$(date +%s)
  for place in "$@"; do
    case $place in
      */trees/*)
        remove_tree "$place" "$limit"
        printf '%s %s\n' "$place" $value
        continue
        ;;
    esac
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
    place=${place%/*}
    remove_empty "${place%/trees}"
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
  for value in "$top/$1"/*; do
    case ${value##*/} in '*' | events | bin.[12]) ;; *) return ;; esac
  done
  rm -rf "${top:?}/$1"/events "$top/$1"/bin.[12]
  rmdir "$top/$1" "$top/${1%/*}"
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
