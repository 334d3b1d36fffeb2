"""The completion scripts of bash, zsh and fish: each asks the completer and shows what it answers."""

from __future__ import annotations

from string import Template

from gcushare.cli.kubectl.flags import Shell
from gcushare.cli.kubectl.help_text import Names

_BASH = Template(
    r"""# bash completion for ${executable}
_${function}() {
    local line=$${COMP_LINE:0:COMP_POINT} out directive
    local -a words
    read -ra words <<< "$$line"
    [[ $$line == *[[:space:]] ]] && words+=("")
    out=$$(${completer} "$${words[@]:1}" 2>/dev/null) || return
    directive=$${out##*:}
    COMPREPLY=()
    local candidate begun=$${words[-1]}
    while IFS= read -r candidate; do
        candidate=$${candidate%%$$'\t'*}
        [[ -z $$candidate || $$candidate == :* ]] && continue
        # readline replaces what follows the last '=' only.
        [[ $$begun == *=* ]] && candidate=$${candidate#"$${begun%%=*}="}
        COMPREPLY+=("$$candidate")
    done <<< "$$out"
    [[ $$directive == 0 ]] && compopt -o default
}
complete -F _${function} ${executable}
"""
)

_ZSH = Template(
    r"""#compdef ${executable}
# zsh completion for ${executable}
_${function}() {
    local out directive line
    local -a candidates
    out=$$(${completer} "$${(@)words[2,$$CURRENT]}" 2>/dev/null) || return
    directive=$${out##*:}
    for line in "$${(@f)out}"; do
        [[ -z $$line || $$line == :* ]] && continue
        candidates+=("$${$${line%%$$'\t'*}//:/\\:}:$${line#*$$'\t'}")
    done
    if [[ $$directive == 0 ]]; then
        _files
    else
        _describe '${executable}' candidates
    fi
}
if [[ $$zsh_eval_context[-1] == loadautofunc ]]; then
    _${function} "$$@"
else
    compdef _${function} ${executable}
fi
"""
)

_FISH = Template(
    r"""# fish completion for ${executable}
function __${function}
    set -l words (commandline -opc)
    set -e words[1]
    ${completer} $$words (commandline -ct) 2>/dev/null | string match -v -r '^:[0-9]+$$'
end
complete -c ${executable} -f -a '(__${function})'
"""
)

_SCRIPTS = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


def completion_script(names: Names, shell: Shell) -> str:
    return _SCRIPTS[shell].substitute(
        executable=names.executable, completer=names.completer, function=names.executable.replace("-", "_")
    )
