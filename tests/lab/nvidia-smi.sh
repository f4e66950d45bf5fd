#!/bin/sh
# A stand-in for nvidia-smi: GPUs come from a table that the lab writes, compute apps are processes that really run on
# this node. A process counts on a GPU when its environment has CUDA_VISIBLE_DEVICES naming that GPU and it is not a
# shell or a mere wrapper. LAB_GPU_MIB in its environment is the memory that it shows (512 unless set), LAB_GPU_PERCENT the
# utilisation (90).
# Three forks where there may be such processes, none otherwise.
state='@STATE@'
grep='@GREP@'
node='@NODE@' # where nodes share one process table, only processes marked LAB_NODE=<this> are ours
set -f
export LC_ALL=C
newline='
'

if [ -r "$state/fault" ]; then
    read -r kind value text <"$state/fault"
    case $kind in
    hang) trap '' TERM; exec sleep infinity ;; # the real one hangs in the kernel, where TERM does nothing
    slow) sleep "$value" ;;
    fail) printf '%s\n' "$text"; exit "$value" ;;
    esac
fi

query='' apps_query='' format=csv action=table
case $* in
'-q -d PIDS') action=pids ;;
'topo -m') action=topology ;;
esac
for word; do
    [ $action = pids ] || [ $action = topology ] && break
    case $word in
    --query-gpu=*) query=${word#*=} action=gpu ;;
    --query-compute-apps=*) apps_query=${word#*=} action=apps ;;
    --format=*) format=${word#*=} ;;
    -L | --list-gpus) action=list ;;
    *) printf "ERROR: Option %s is not recognized. Please run 'nvidia-smi -h'.\n\n" "$word"; exit 2 ;;
    esac
done
header=1 units=1
case ,$format, in *,noheader,*) header='' ;; esac
case ,$format, in *,nounits,*) units='' ;; esac

unknown_field() {
    printf 'Field "%s" is not a valid field to query.\n\n' "$1"
    exit 2
}

# cell_of VALUE UNIT -> `cell`, with its unit when it is a number
cell_of() {
    cell=$1
    case $cell in '' | *[!0-9]*) ;; *) [ -z "$units" ] || cell="$cell $2" ;; esac
}

# visible_gpus LIST: appends a line "uuid pid mib percent command" to `apps` for each GPU that the list names
visible_gpus() {
    oldifs=$IFS IFS=,
    for entry in $1; do
        while IFS='|' read -r index uuid _; do
            case $entry in
            "$index") ;;
            GPU-*) case $uuid in "$entry"*) ;; *) continue ;; esac ;;
            *) continue ;;
            esac
            apps="$apps$uuid $pid $mib $percent $command$newline"
        done <"$state/gpus"
    done
    IFS=$oldifs
}

# computes PID -> command, unless that is a shell or a mere wrapper
computes() {
    { read -r command <"/proc/$1/comm"; } 2>/dev/null || return 1
    case $command in
    sh | ash | dash | bash | zsh | ksh* | csh | tcsh | fish | busybox) return 1 ;;
    env | flock | head | nohup | setsid | script | stdbuf | tail | tee | timeout | sshd* | sftp-server) return 1 ;;
    nvidia-smi | grep | tr | dd) return 1 ;;
    esac
}

# one_process: takes in the process whose variables were collected by `scan`
one_process() {
    [ -n "$pid" ] && [ -n "$visible" ] && [ "$marked" = "$node" ] && computes "$pid" || return 0
    visible_gpus "$visible"
}

scan() {
    apps='' pid='' visible='' mib=512 percent=90 marked=''
    set +f
    set -- /proc/[0-9]*
    set -f
    for place; do
        shift
        computes "${place#/proc/}" && set -- "$@" "$place/environ"
    done
    [ $# -gt 0 ] || return 0
    found=$("$grep" -azHE '^(CUDA_VISIBLE_DEVICES|LAB_GPU_MIB|LAB_GPU_PERCENT|LAB_NODE)=' "$@" 2>/dev/null | tr '\0' '\n')
    oldifs_scan=$IFS IFS=$newline
    for line in $found; do
        case $line in /proc/*/environ:*) ;; *) continue ;; esac
        this=${line#/proc/}
        this=${this%%/*}
        if [ "$this" != "$pid" ]; then
            one_process
            pid=$this visible='' mib=512 percent=90 marked=''
        fi
        case ${line#*:} in
        CUDA_VISIBLE_DEVICES=*) visible=${line#*=} ;;
        LAB_GPU_MIB=*) mib=${line#*=} ;;
        LAB_GPU_PERCENT=*) percent=${line#*=} ;;
        LAB_NODE=*) marked=${line#*=} ;;
        esac
    done
    one_process
    IFS=$oldifs_scan
}

# load_of UUID: adds what runs there to `used` and `utilization`
load_of() {
    oldifs=$IFS IFS=$newline
    for app in $apps; do
        case $app in
        "$1 "*)
            app=${app#* } app=${app#* }
            case $used in *[!0-9]*) ;; *) used=$((used + ${app%% *})) ;; esac
            app=${app#* }
            case $utilization in *[!0-9]*) ;; *) utilization=${app%% *} ;; esac
            ;;
        esac
    done
    IFS=$oldifs
}

gpu_cell() {
    case $1 in
    index) cell=$index ;;
    count) cell=$count ;;
    uuid | gpu_uuid) cell=$uuid ;;
    pci.bus_id | gpu_bus_id) cell=$bus_id ;;
    name | gpu_name) cell=$name ;;
    driver_version) cell=$driver ;;
    memory.total) cell_of "$total" MiB ;;
    memory.used) cell_of "$used" MiB ;;
    memory.free) case $total$used in *[!0-9]*) cell='[N/A]' ;; *) cell_of $((total - used)) MiB ;; esac ;;
    utilization.gpu) cell_of "$utilization" % ;;
    temperature.gpu) cell=$temperature ;;
    power.draw) cell_of 71 W ;;
    ecc.errors.uncorrected.volatile.total) cell=0 ;;
    remapped_rows.failure) cell=No ;;
    mig.mode.current) cell=$mig ;;
    compute_mode) cell=$compute_mode ;;
    *) unknown_field "$1" ;;
    esac
}

# title FIELDS: the header line, and the check that all fields are known
title() {
    line='' index='' uuid='' bus_id='' name='' driver='' total='' used='' utilization='' temperature='' mig='' compute_mode=''
    for field in $1; do
        "$2" "$field"
        case $field in
        memory.* | used_gpu_memory | used_memory) field="$field${units:+ [MiB]}" ;;
        utilization.gpu) field="$field${units:+ [%]}" ;;
        esac
        line="$line, $field"
    done
    [ -z "$header" ] || printf '%s\n' "${line#, }"
}

read_gpu() { IFS='|' read -r index uuid bus_id name total used utilization driver mig compute_mode temperature status; }

gpu_rows() {
    apps='' count=0 code=0
    case $query in *memory.used* | *memory.free* | *utilization*) scan ;; esac
    while read_gpu; do [ "$status" = hidden ] || count=$((count + 1)); done <"$state/gpus"
    IFS=', '
    title "$query" gpu_cell
    while read_gpu; do
        case $status in
        hidden) continue ;;
        lost)
            printf 'Unable to determine the device handle for GPU%s: %s: GPU is lost.  Reboot the system to recover this GPU\n' \
                "$index" "${bus_id#0000}"
            code=15
            continue
            ;;
        esac
        load_of "$uuid"
        line=''
        for field in $query; do
            gpu_cell "$field"
            line="$line, $cell"
        done
        printf '%s\n' "${line#, }"
    done <"$state/gpus"
    exit "$code"
}

app_cell() {
    case $1 in
    gpu_uuid) cell=$uuid ;;
    gpu_name) cell=$name ;;
    gpu_bus_id) cell=$bus_id ;;
    pid) cell=$pid ;;
    process_name | name) cell=$command ;;
    used_gpu_memory | used_memory) cell_of "$mib" MiB ;;
    *) unknown_field "$1" ;;
    esac
}

app_rows() {
    scan
    pid='' command='' mib='' IFS=', '
    title "$apps_query" app_cell
    while read_gpu; do
        [ "$status" = ok ] || continue
        IFS=$newline
        for app in $apps; do
            case $app in "$uuid "*) ;; *) continue ;; esac
            app=${app#* } pid=${app%% *} app=${app#* } mib=${app%% *} app=${app#* } command=${app#* } line='' IFS=', '
            for field in $apps_query; do
                app_cell "$field"
                line="$line, $cell"
            done
            printf '%s\n' "${line#, }"
        done
    done <"$state/gpus"
}

# pids: a section for each GPU, with what runs there
pids() {
    scan
    printf '\n==============NVSMI LOG==============\n\nDriver Version                            : 550.54.15\n'
    printf 'CUDA Version                              : 12.4\n\n'
    while read_gpu; do
        [ "$status" = ok ] || continue
        here=''
        oldifs=$IFS IFS=$newline
        for app in $apps; do
            case $app in "$uuid "*) ;; *) continue ;; esac
            app=${app#* } pid=${app%% *} app=${app#* } mib=${app%% *} app=${app#* } command=${app#* }
            here="$here        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : $pid
            Type                          : C
            Name                          : $command
            Used GPU Memory               : $mib MiB
"
        done
        IFS=$oldifs
        if [ -n "$here" ]; then
            printf 'GPU %s\n    Processes\n%s\n' "$bus_id" "$here"
        else
            printf 'GPU %s\n    Processes                             : None\n\n' "$bus_id"
        fi
    done <"$state/gpus"
}

# topology: all GPUs of the node are linked with each other
topology() {
    heads='' count=0
    while read_gpu; do heads="$heads	GPU$index"; done <"$state/gpus"
    printf '%s	CPU Affinity\n' "$heads"
    while read_gpu; do
        line=GPU$index
        for head in $heads; do
            if [ "$head" = "GPU$index" ]; then line="$line	 X "; else line="$line	NV4"; fi
        done
        printf '%s	0-1\n' "$line"
    done <"$state/gpus"
}

list() {
    while read_gpu; do
        [ "$status" = hidden ] || printf 'GPU %s: %s (UUID: %s)\n' "$index" "$name" "$uuid"
    done <"$state/gpus"
}

table() {
    scan
    while read_gpu; do
        [ "$status" = hidden ] && continue
        load_of "$uuid"
        printf '| %3s  %-28s %s | %6s / %6s MiB | %3s %% |\n' "$index" "$name" "$bus_id" "$used" "$total" "$utilization"
    done <"$state/gpus"
}

case $action in
gpu) gpu_rows ;;
apps) app_rows ;;
pids) pids ;;
topology) topology ;;
list) list ;;
table) table ;;
esac
