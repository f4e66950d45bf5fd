#compdef mgpu
# Completion of mgpu in zsh, from `mgpu completion install`. What was typed is handed on as it is, and never run here.
_mgpu() {
    local -a lines found shown
    local line asked behind
    lines=("${(@f)$(command mgpu completion candidates -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null </dev/null)}")
    asked=${lines[1]%%$'\t'*}
    behind=${lines[1]#*$'\t'}
    for line in "${(@)lines[2,-1]}"; do
        [[ -n $line ]] || continue
        found+=("${line%%$'\t'*}")
        line=${line#*$'\t'}
        shown+=("${found[-1]}${line:+  -- $line}")
    done
    if (( ${#found} )); then
        compadd -V mgpu -l -d shown -a found
        return
    fi
    [[ -z $behind ]] || compset -P '*='
    case $asked in
        files) _files ;;
        folders) _files -/ ;;
        commands) _command_names -e || _files ;;
        *) return 1 ;;
    esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _mgpu "$@"
else
    compdef _mgpu mgpu
fi
