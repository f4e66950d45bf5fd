# Requests about the way between nodes: one listens, others try to reach it. And texts that are run to look at things.

# What these do stands in meet.pl and meet.py, as variables of that name. Where there is neither, the texts below make do
# with other programs: at most one port, and a little slower.

# listen_plainly, run by a shell of its own: TOOL TAG NONCE PORT...
listen_plainly='tool=$1 tag=$2 nonce=$3
shift 3
listened() { grep -qis "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F]*:0000 0A " /proc/net/tcp /proc/net/tcp6; }
serve() {
  case $1 in
    socat) exec socat "TCP-LISTEN:$2,reuseaddr,fork" "EXEC:echo $nonce" ;;
    *) while :; do echo "$nonce" | nc $1 "$2" || sleep 0.02; done ;;
  esac
}
[ "$tool" = socat ] && forms=socat || forms="-lp -l"
for port; do
  listened "$port" && continue
  IFS=" "
  for form in $forms; do
    serve "$form" "$port" >/dev/null &
    tries=0
    until listened "$port"; do
      tries=$((tries + 1))
      [ $tries -le 20 ] || { kill $!; continue 2; }
      sleep 0.05
    done
    printf "\n%s listening %s %s -\n" "$tag" "$tool" "$port"
    wait
    exit
  done
  printf "\n%s unable\n" "$tag"
  exit
done
printf "\n%s taken\n" "$tag"'

# reach_plainly, likewise: TOOL LIMIT_S [ADDRESS PORT NONCE]...
reach_plainly='tool=$1 limit=$2
shift 2
call() {
  case $tool in
    bash) timeout "$limit" bash -c "exec 3<>/dev/tcp/$1/$2 && read -r line <&3 && echo \$line" 2>&1 ;;
    socat)
      case $1 in *:*) set -- "[$1]" "$2" ;; esac
      timeout "$limit" socat -u "TCP:$1:$2" - 2>&1
      ;;
    *) timeout "$limit" nc -w "$limit" "$1" "$2" 2>&1 ;;
  esac
}
one() {
  for try in 1 2 3 4 5 6 7 8; do
    said=$(call "$1" "$2" </dev/null)
    status=$?
    if [ "$said" = "$3" ]; then said=ok; break; fi
    case $status in 124 | 143) said="Connection timed out"; break ;; esac
    case $said in
      *[Rr]efused*) said="Connection refused" ;;
      *"imed out"*) said="Connection timed out" ;;
      *"o route"*) said="No route to host" ;;
      *nreachable*) said="Network is unreachable" ;;
      "" | *[Rr]eset*) said="no answer" ;;
      *) said="somebody else answers" ;;
    esac
    sleep 0.1
  done
  echo "$1 $2 $said"
}
while [ $# -ge 3 ]; do
  one "$1" "$2" "$3" &
  shift 3
done
wait'

# can TOOL: it is here, and has what is needed of it
can() {
  # shellcheck disable=SC2086
  case $1 in
    perl) $plain_perl -MSocket=getaddrinfo,IN6ADDR_ANY -e 1 ;;
    python3) python3 -ISc 'import select, socket, threading, time' ;;
    *) command -v "$1" ;;
  esac </dev/null >/dev/null 2>&1
}

# able TOOL... -> able, the first of these that can be used
able() {
  for able in "$@"; do can "$able" && return; done
  able=
  return 1
}

# listen NONCE LIMIT_S PORT...: at the first of these that is free, until a line (or the end) comes on stdin. Says
# `listening TOOL PORT OTHER` (one that the kernel chose, or -), `taken` or `unable`; whoever connects is told the nonce
op_listen() {
  if ! able perl python3 socat nc; then
    end failed none
    return
  fi
  nonce=$1
  limit=$2
  shift 2
  # shellcheck disable=SC2154,SC2086
  case $able in
    perl) set -- $plain_perl -e "$meet_pl" listen "$mark $id" "$nonce" "$@" ;;
    python3) set -- python3 -ISc "$meet_py" listen "$mark $id" "$nonce" "$@" ;;
    *) set -- sh -c "$listen_plainly" sh "$able" "$mark $id" "$nonce" "$@" ;;
  esac
  "$timeout" -k 1 "$limit" "$@" </dev/null 2>/dev/null &
  piece=$!
  read -r value
  kill $piece
  wait $piece
  leave_nothing $piece
  end ok
} 2>/dev/null

# reach LIMIT_S [ADDRESS PORT NONCE]...: for each a line `ADDRESS PORT ok`, or what went wrong in place of that
op_reach() {
  if ! able perl python3 bash socat nc; then
    end failed none
    return
  fi
  limit=$1
  shift
  # shellcheck disable=SC2086
  case $able in
    perl) set -- $plain_perl -e "$meet_pl" reach "$limit" "$@" ;;
    python3) set -- python3 -ISc "$meet_py" reach "$limit" "$@" ;;
    *) set -- sh -c "$reach_plainly" sh "$able" "$limit" "$@" ;;
  esac
  bounded $((limit + 2)) 65536 more "$@"
  printf '%s' "$answer"
  end ok "$able"
} 2>/dev/null

# try LIMIT_S SHELL TEXT: what it prints, and its exit status. It is in no command line, for it may hold a secret
op_try() {
  value=$(spill "$3" /proc/self/fd/1; printf .)
  tool "$2"
  export MGPU_TEXT="${value%.}"
  bounded "$1" 65536 more "${tool:-sh}" -c 'value=$MGPU_TEXT; unset MGPU_TEXT; eval "$value"'
  status=$?
  unset MGPU_TEXT
  printf '%s' "$answer"
  end ok $status
}

# marks NONCE DIRECTORY...: a file in each, `.mgpu.NONCE`, until a line (or the end) comes on stdin. Says `marked` and for
# each 1, or 0 where it cannot be made
op_marks() {
  nonce=$1
  shift
  made=
  for value in "$@"; do
    decode "$value"
    at_home "$value"
    if (set -C; true >"$value/.mgpu.$nonce") 2>/dev/null; then made="$made 1"; else made="$made 0"; fi
  done
  printf '\n%s %s marked%s\n' "$mark" "$id" "$made"
  read -r value
  for value in "$@"; do
    decode "$value"
    at_home "$value"
    case $made in " 1"*) rm -f "$value/.mgpu.$nonce" ;; esac
    made=${made# ?}
  done
  end ok
}
