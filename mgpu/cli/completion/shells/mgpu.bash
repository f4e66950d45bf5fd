# Completion of mgpu in bash, from `mgpu completion install`. What was typed is handed on as it is, and never run here.
_mgpu() {
    local line asked _
    COMPREPLY=()
    compopt -o nosort 2>/dev/null
    {
        IFS=$'\t' read -r asked _
        while IFS=$'\t' read -r line _; do
            COMPREPLY+=("$line")
        done
    } < <(command mgpu completion candidates "--line=${COMP_LINE:0:COMP_POINT}" "--replaced=$2" 2>/dev/null </dev/null)
    case $asked in
        files) compopt -o default 2>/dev/null ;;
        folders) compopt -o dirnames 2>/dev/null ;;
        commands)
            while IFS= read -r line; do
                COMPREPLY+=("$line")
            done < <(compgen -c -- "$2" | LC_ALL=C sort -u)
            [ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default 2>/dev/null
            ;;
    esac
}
complete -F _mgpu mgpu
