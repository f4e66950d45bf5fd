# Completion of mgpu in fish, from `mgpu completion install`. What was typed is handed on as it is, and never run here.
function __mgpu_complete
    set -l before (commandline -opc)
    set -l typed (commandline -ct)
    # a quote that is still open is none of the word
    set -l current (string unescape -- "$typed" "$typed'" "$typed\"")[1]
    set -l lines (command mgpu completion candidates -- $before "$current" 2>/dev/null </dev/null)
    set -l first (string split \t -- $lines[1])
    for line in $lines[2..-1]
        echo $line
    end
    set -l value (string sub -s (math 1 + (string length -- "$first[2]")) -- "$current")
    switch "$first[1]"
        case files
            for each in (__fish_complete_path "$value")
                echo "$first[2]$each"
            end
        case folders
            for each in (__fish_complete_path "$value" | string match -r '.*/(?=\t|$)')
                echo "$first[2]$each"
            end
        case commands
            __fish_complete_command
    end
end
complete -c mgpu -e
complete -c mgpu -f -a '(__mgpu_complete)'
