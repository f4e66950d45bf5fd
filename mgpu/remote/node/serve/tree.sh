# Requests about working trees that jobs bring along: each comes once, packed, and is kept beside the run directories.
# The runner unpacks it into the run directory of each job that goes by it.

# tree DIGEST: whether it is here; if so it stays for a while again
op_tree() {
  for value in tar gzip touch sort; do
    command -v $value >/dev/null && continue
    end failed directory "no $value in PATH, which unpacking a shipped tree needs"
    return
  done
  if [ -f "$root/trees/$1" ] && touch -c "$root/trees/$1" 2>/dev/null; then end ok here; else end ok absent; fi
}

# take_tree DIGEST @BYTES: its name is given last, so what has it is whole. What is cut on its way goes with this shell
op_take_tree() {
  value=$root/trees
  [ -d "$value" ] || mkdir -p "$value" 2>/dev/null
  made=$value/$1.$$
  rm -f "$made"
  trap 'rm -f "$made"' EXIT
  if spill "$2" "$made" && mv -f "$made" "$value/$1" 2>/dev/null; then
    few_trees
    end ok
  else
    rm -f "$made"
    end failed node "cannot write the shipped tree to $value (disk full or quota reached?)"
  fi
  trap - EXIT
}

# few_trees: those that nobody wanted for a week go, and of those that nobody wanted for an hour all but the last ten; and
# what was left half
few_trees() {
  "$find" "$root/trees" -maxdepth 1 -type f -mmin +10080 -exec rm -f {} +
  "$find" "$root/trees" -maxdepth 1 -type f -name '*.*' -mmin +60 -exec rm -f {} +
  "$find" "$root/trees" -maxdepth 1 -type f -printf '%T@ %f\n' | sort -rn | "$tail" -n +11 | while read -r _ value; do
    "$find" "$root/trees/$value" -maxdepth 0 -mmin +60 -exec rm -f {} +
  done
} 2>/dev/null

# tree_place PLACE: it is DATABASE/NODE/trees/DIGEST, or what came of one that was cut on its way, and no link leads there
tree_place() {
  piece=${1##*/}
  case ${piece%%.*} in *[!0-9a-f]*) return 1 ;; esac
  case ${piece#"${piece%%.*}"} in '' | .[0-9]*) ;; *) return 1 ;; esac
  case $1 in *[!A-Za-z0-9._/-]* | */*/*/*/*) return 1 ;; *?/[A-Za-z0-9]*/trees/*) ;; *) return 1 ;; esac
  piece=${1%%/*}
  case $piece in *[!0-9a-f]*) return 1 ;; esac
  [ ${#piece} = 32 ] || return 1
  for piece in "$top/$piece" "$top/${1%/*/*}" "$top/${1%/*}"; do
    [ -d "$piece" ] && [ ! -L "$piece" ] || return 1
  done
  [ -f "$top/$1" ] && [ ! -L "$top/$1" ]
}

# remove_tree PLACE AGE -> value, a word as of op_remove; with the last one their folder goes
remove_tree() {
  value=absent
  tree_place "$1" || return 0
  value=used
  [ $(($(date +%s) - $(stat -c %Y "$top/$1"))) -ge "$2" ] || return 0
  value=stays
  rm -f "$top/$1" 2>/dev/null && value=removed
  rmdir "$top/${1%/*}" 2>/dev/null
  return 0
}
