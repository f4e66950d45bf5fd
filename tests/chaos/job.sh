#!/bin/sh
# The job of a chaos run. What it does is written down on its node, append-only and outside the run directory, before
# it is done; `uptime` is the clock, which no reboot of a lab's node sets back.
#
#   job.sh SERIAL STEPS CODE WIDTH FILL TRAITS
#
# Each step says a line of WIDTH times the byte FILL (octal) on stdout and a short one on stderr, and lasts a fifth of a
# second. TRAITS, with commas between: child, hidden (children that are left behind, the second without environment),
# stubborn (ignores TERM), neat (exits with 3 on TERM), fail-once (CODE 9 in its first attempt), own-kill (ends by KILL,
# CODE must be 137), tree (CODE becomes 98 where what was shipped is not as it was).
#
# Lines of the record, each `UPTIME WORD ...`: `begin PID BOOT GPUS`, `say STREAM NUMBER WIDTH FILL`, `unsaid STREAM
# NUMBER` (it could not be written), `term`, `sum STREAM SIZE MD5` (of the file behind the stream), `end CODE`.
serial=$1 steps=$2 code=$3 width=$4 fill=$5 traits=,$6,
folder=/var/tmp/chaos
[ -d $folder ] || mkdir -m 1777 $folder 2>/dev/null
exec 5>>"$folder/$serial.$MGPU_JOB_ID.$MGPU_ATTEMPT.$MGPU_RANK"
# what this shell and its tools say of killed children and full disks ("Terminated") is no part of the job's own stderr
exec 6>&2 2>/dev/null

note() {
    read -r uptime _ </proc/uptime
    printf '%s %s\n' "$uptime" "$*" >&5
}

has() { case $traits in *,"$1",*) return 0 ;; *) return 1 ;; esac }

# say STREAM NUMBER WIDTH: on descriptor 1
say() {
    note say "$1" "$2" "$3" "$fill"
    if printf '%s.%s.%s %s %s ' "$serial" "$MGPU_ATTEMPT" "$MGPU_RANK" "$1" "$2" &&
        { [ "$3" -eq 0 ] || head -c "$3" /dev/zero | tr '\0' "\\$fill"; } && printf '\n'; then
        return
    fi
    note unsaid "$1" "$2"
}

# sum_of STREAM DESCRIPTOR
sum_of() {
    # shellcheck disable=SC2046
    set -- "$1" $(md5sum <"/proc/$$/fd/$2") $(stat -L -c %s "/proc/$$/fd/$2")
    note sum "$1" "$4" "$2"
}

read -r boot </proc/sys/kernel/random/boot_id
note begin $$ "$boot" "${CUDA_VISIBLE_DEVICES:--}"
has stubborn && trap '' TERM
has neat && trap 'note term; note end 3; exit 3' TERM
has child && setsid sleep 1000 </dev/null >/dev/null 2>&1 5>&- &
has hidden && env -i /bin/sh -c 'trap "" TERM; setsid sleep 1000' </dev/null >/dev/null 2>&1 5>&- &
has tree && ! md5sum -c --status sums && code=98
has fail-once && [ "$MGPU_ATTEMPT" = 1 ] && code=9

step=0
while [ $step -lt "$steps" ]; do
    step=$((step + 1))
    say stdout $step "$width"
    say stderr $step 0 >&6
    sleep 0.2
done
sum_of stdout 1
sum_of stderr 6
note end "$code"
has own-kill && kill -KILL $$
exit "$code"
