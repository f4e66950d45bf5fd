# A working tree that a job brought along.

# unpack DIGEST: it becomes $dir/work. Nothing in it leads out of there: the master has looked through it
unpack() {
  printf 'unpacking the shipped tree' >"$dir/step" 2>/dev/null
  value=${dir%/*}/trees/$1
  [ -f "$value" ] || fail node "the shipped tree is not on the node any more"
  mkdir "$dir/work" 2>/dev/null || fail node "cannot make $dir/work (disk full?)"
  value=$(
    exec 2>&1
    unset TAR_OPTIONS GZIP
    umask "$mask"
    cd -P "$dir/work" && gzip -dc <"$value" | tar -xof -
  ) && return
  [ -L "$dir/stop" ] && fail aborted "stopped before it began"
  fail node "cannot unpack the shipped tree into $dir/work: $value"
}
