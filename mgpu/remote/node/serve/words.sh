# Words of requests and answers, and the programs that everything here stands on.
#
# A request is a line `ID OP WORD...`; the answer is text that ends in a line `MARK ID end STATUS WORD...`. MARK is
# random per channel, so that login noise can never be taken for an answer. Words are %b-escaped (`\0ooo`), "-" is empty;
# a long one is `@N`: then N raw bytes and a line with a dot follow the request (a shell reads lines byte by byte).

# programs that load no locale start in half the time, and say what is wrong in one language; jobs get the login's own
locale=${LC_ALL-}
export LC_ALL=C

for value in /usr/local/bin /usr/bin /bin /usr/local/sbin /usr/sbin /sbin; do
  case :$PATH: in *:$value:*) ;; *) PATH=$PATH:$value ;; esac
done

tools
tool tail
tail=$tool
tool timeout
timeout=$tool

# perl, without what is set for perl: that is meant for the jobs' own programs, and may make ours another language
perl_names='PERL5OPT PERL5LIB PERLLIB PERL5DB PERL_UNICODE PERLIO PERL_SIGNALS LD_BIND_NOW'
plain_perl='env'
for value in $perl_names; do
  plain_perl="$plain_perl -u $value"
done
# LD_BIND_NOW: else each process that it forks looks for its functions anew
plain_perl="$plain_perl LD_BIND_NOW=1 perl"

end() { printf '\n%s %s end %s\n' "$mark" "$id" "$*"; }

section() { printf '\n%s %s section %s\n' "$mark" "$id" "$*"; }

# at_home PATH -> value, with a leading ~ resolved
at_home() {
  value=$1
  # shellcheck disable=SC2088
  case $value in "~" | "~/"*) value=${HOME-}${value#?} ;; esac
}

# decode WORD -> value
decode() {
  case $1 in
    -) value= ;;
    *\\*) value=$(printf '%b.' "$1"); value=${value%.} ;;
    *) value=$1 ;;
  esac
}
