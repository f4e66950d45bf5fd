"""What lets mpirun start processes on the other nodes of its job without ssh: the two halves of it, as shell text.

In rank 0's run directory the agent, which mpirun calls like ssh, lays down what it was asked for and waits for the
answer. The master reads that, sees to it that the host belongs to the job, and hands it to the part there, which waits
for work in place of a command; it brings the exit code back. All of it lies in `spawn/` (see node/job/records.sh).
"""

from __future__ import annotations

BROKEN = 255  # the exit code of a part that waited, see below

# An ask is the host in its first line, or the rank of one that was in the list of hosts, then shell text: what the job
# has set since it began, then the command. Nothing that belongs to a node, or to mpirun itself, goes along.
AGENT = r"""#!/bin/sh
dir=${0%/*}
run=${dir%/*}
quoted() { printf '%s\n' "$1" | sed "s/'/'\\\\''/g; 1s/^/'/; \$s/\$/'/"; }
while :; do
  case ${1-} in
    -[BbcDEeFIiJLlmOoPpQRSWw]) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
host=${1#*@}
rank=
[ $# -lt 2 ] || shift
case ${SHELL-} in
  # mpirun has written its command for the account's own shell
  */csh | */tcsh) command="exec $SHELL -fc $(quoted "$*")" ;;
  *) command=$* ;;
esac
read -r own </proc/sys/kernel/hostname
case $host in "$own" | localhost) exec sh -c "$command" ;; esac
fail() {
  echo "mgpu: $host: $1" >&2
  exit 255
}
changed() {
  env -0 | tr '\n\0' '\001\n' | LC_ALL=C grep -avxF -f "$dir/world" | LC_ALL=C sed -nE \
    -e '/^(OMPI|PMIX|PRTE|PMI|HYDRA|HYDI|MGPU|SLURM|CUDA_VISIBLE_DEVICES|PWD|OLDPWD|SHLVL|_)[_=]/d' \
    -e "s/'/'\\\\''/g; s/^([A-Za-z_][A-Za-z0-9_]*)=(.*)\$/export \\1='\\2'/p" | tr '\001' '\n'
}
count=0
while read -r value _; do
  [ "$value" != "$host" ] || rank=@$count
  count=$((count + 1))
done <"$dir/hosts"
# ranks begin where mpirun does, by that path: in a shipped tree it is to lead to the part's own one there
placed() {
  [ -d "$run/work" ] || return 0
  count=0
  for value in "$run" "$(cd "$run" && pwd -P)"; do
    parent=$(quoted "${value%/*}") value=$(quoted "$value") count=$((count + 1))
    printf '[ -e %s ] || (umask 077; mkdir -p %s; ln -s "${PWD%%/*}" %s; ln -s %s place.%s)\n' \
      "$value" "$parent" "$value" "$value" $count
  done
}
read -r id _ </proc/uptime
id=$$.${id%.*}${id#*.}
trap 'rm -f "$dir/wake.$id" "$dir/ask.$id" "$dir/.ask.$id" "$dir/answer.$id"' EXIT
trap 'exit 143' HUP INT TERM
# what is meant for the job's own programs
trap : QUIT USR1 USR2 ALRM XCPU
mask=$(umask)
umask 077
mkfifo "$dir/wake.$id" || fail "cannot make a named pipe in $dir"
# for both ways: for one alone it would wait for the other
value=$dir/wake.$id
exec 3<>"$value"
{ printf '%s\n' "${rank:-$host}" && placed && changed && printf '%s\n' "$command"; } >"$dir/.ask.$id" &&
  mv "$dir/.ask.$id" "$dir/ask.$id" || fail "cannot write to $dir (disk full?)"
printf '%s ask %s\n' "${run##*/}" "$id" >>"${run%/*}/events"
while [ ! -f "$dir/answer.$id" ]; do read -r value <&3; done
{
  read -r value
  cat >&2
} <"$dir/answer.$id"
if [ "$value" = here ]; then
  umask "$mask"
  exec 3<&-
  sh -c "$command"
  exit
fi
exit "$value"
"""

# A part that waits ends well when it is told to, unless a signal that was not ours has ended what it last did (BROKEN):
# mpirun may end with 0 all the same (Open MPI 5's does). Each piece of work runs once, in a shell that tells of its
# end; not with `&`: what a shell starts so ignores SIGINT for good. A daemon lives on when its command has ended. The
# folder is one without a .profile: mpirun has that of the current one read, which would say once more what is known.
WAIT = r"""set +efu
mgpu_run=${0%/*}
trap '[ -L "$mgpu_run/stop" ] || exit 143
[ -L "$mgpu_run/spawn/broken" ] || exit 0
echo "mgpu: what mpirun ran here was ended by a signal: status $(readlink "$mgpu_run/spawn/broken")" >&2
exit 255' TERM
trap : HUP INT QUIT USR1 USR2 ALRM XCPU
(
  umask 077
  mkdir -p "$mgpu_run/spawn"
  [ -p "$mgpu_run/wake" ] || mkfifo "$mgpu_run/wake"
)
mgpu_setsid=setsid
IFS=:
for mgpu_id in $PATH; do
  # busybox prefers one of its own, which cannot do this
  [ -x "$mgpu_id/setsid" ] && mgpu_setsid=$mgpu_id/setsid && break
done
unset IFS
mgpu_id=$mgpu_run/wake
exec 6<>"$mgpu_id" </dev/null
# not by itself once it is to end: who ends before any signal has ended in time, and nobody has cancelled it
while :; do
  for mgpu_work in "$mgpu_run"/spawn/work.*; do
    [ -f "$mgpu_work" ] && [ ! -L "$mgpu_run/stop" ] || continue
    mgpu_id=${mgpu_work##*/work.}
    # one that comes a second time is only taken away
    ln -s 1 "$mgpu_run/spawn/taken.$mgpu_id" 2>/dev/null || { rm -f "$mgpu_work"; continue; }
    mv "$mgpu_work" "$mgpu_run/spawn/begun.$mgpu_id"
    "$mgpu_setsid" -f sh -c 'trap : HUP INT QUIT TERM USR1 USR2 ALRM XCPU
cd "$1/spawn"
read -r stat <"/proc/$$/stat"
set -- "$1" "$2" $stat
ln -s "$$:${24}" "by.$2"
rm -f broken
sh "./begun.$2"
code=$?
[ $code -le 128 ] || [ $code = 143 ] || [ -L ../stop ] || ln -s $code broken
ln -s $code "worked.$2"
rm -f "begun.$2"
echo "${1##*/} worked $2" >>"${1%/*}/events"' sh "$mgpu_run" "$mgpu_id" 6<&- || {
      ln -s 126 "$mgpu_run/spawn/worked.$mgpu_id"
      echo "${mgpu_run##*/} worked $mgpu_id" >>"${mgpu_run%/*}/events"
    }
  done
  read -r mgpu_work <&6 || :
done"""
