"""Pieces of shell text, for any POSIX shell."""

from __future__ import annotations

from collections.abc import Mapping

from mgpu.core.model import Command, CommandForm


def quote(text: str) -> str:
    """A word for any POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def exports(values: Mapping[str, str]) -> list[str]:
    return [f"export {name}={quote(value)}" for name, value in values.items()]


_FILE = r"""
case $mgpu_file in '~/'*) mgpu_file=$HOME/${mgpu_file#??} ;; esac
mgpu_odd() { printf '%s\n' "mgpu: --export-file $mgpu_file: $1" >&2; }
[ -f "$mgpu_file" ] && [ -r "$mgpu_file" ] || {
  mgpu_odd "no file that can be read on this node: the command is not run"; exit 2
}
# of values that may hold line ends, these become \001 while they are read
if [ "$(tr -dc '\000' <"$mgpu_file" | wc -c)" -gt 0 ]; then
  mgpu_text=$(tr '\000\n' '\n\001' <"$mgpu_file")
else
  mgpu_text=$(cat -- "$mgpu_file")
fi
mgpu_soh=$(printf '\001') mgpu_number=0
while IFS= read -r mgpu_line; do
  mgpu_number=$((mgpu_number + 1))
  mgpu_name=${mgpu_line%%=*} mgpu_value=${mgpu_line#*=}
  mgpu_name=${mgpu_name#export }
  case $mgpu_line in
  '' | '#'*) continue ;;
  *=*) ;;
  *) mgpu_name= ;;
  esac
  case $mgpu_name in
  '' | [0-9]* | *[!A-Za-z0-9_]* | mgpu_*) mgpu_odd "passed over, as it is no NAME=VALUE: line $mgpu_number"; continue ;;
  esac
  case $mgpu_value in
  *"$mgpu_soh"*) mgpu_value=$(printf '%s.' "$mgpu_value" | tr '\001' '\n'); mgpu_value=${mgpu_value%.} ;;
  esac
  export "$mgpu_name=$mgpu_value"
done <<mgpu_end
$mgpu_text
mgpu_end
unset -f mgpu_odd
unset mgpu_file mgpu_text mgpu_soh mgpu_number mgpu_line mgpu_name mgpu_value
"""


def exports_of_file(path: str) -> list[str]:
    """Of lines `NAME=VALUE`, the values as they stand there (an `export` before them, empty lines and those that begin
    with # are passed over); or with NUL between them, as `env -0` writes them and Slurm's --export-file has them. `~/`
    before the path is the home on the node."""
    return [f"mgpu_file={quote(path)}", _FILE.strip()] if path else []


def defaults(values: Mapping[str, str]) -> list[str]:
    """Where nobody has set them; of plain letters and signs."""
    return [f'export {name}="${{{name}-{value}}}"' for name, value in values.items()]


def become(command: Command) -> str:
    """The end of a script: from here on it is the command."""
    words = " ".join(quote(word) for word in command.words)
    if command.form is CommandForm.ARGV:
        return f"exec {words}"
    if command.form is CommandForm.SHELL:
        # in this shell, so that functions which `setup` brought (conda) are there
        return command.words[0]
    # the script is read by its interpreter, not executed: the run directory may be on a noexec mount
    return f'exec {interpreter_of(command.script)} "${{0%/*}}/job" {words}'.rstrip()


def unless_there(command: Command, node: str) -> list[str]:
    """A line for a program that PATH does not have there, before the shell says it in words of its own."""
    if command.form is not CommandForm.ARGV or "/" in command.words[0]:
        return []
    name = command.words[0]
    there = f"there is no {name} in PATH on {node}"
    said = f"mgpu: {there}: install it there, or have --setup, or the node's `setup`, put it into PATH"
    return [f"command -v {quote(name)} >/dev/null || printf '%s\\n' {quote(said)} >&2"]


def interpreter_of(script: str) -> str:
    """Of the `#!` line as the kernel reads it: one program, at most one argument."""
    first = script.split("\n", 1)[0]
    if not first.startswith("#!"):
        return "/bin/sh"
    program, _, argument = first[2:].strip().partition(" ")
    argument = argument.strip()
    return f"{quote(program)} {quote(argument)}" if argument else quote(program or "/bin/sh")
