"""`counsel completion`: a shell's script for completing commands, options, models, ids and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from counsel.cli import COMPLETION_VARIABLE, cli
from counsel.cli.terminal import output

INSTALL = {
    "bash": 'eval "$(counsel completion bash)"                # in ~/.bashrc; needs bash 4.4 or newer',
    "zsh": 'eval "$(counsel completion zsh)"                 # in ~/.zshrc, below compinit',
    "fish": "counsel completion fish | source                # in ~/.config/fish/config.fish",
}

# bash splits the line at every character of COMP_WORDBREAKS, so `codex:gpt` is three words. The script joins them, and
# returns only the part of a completion that follows the last colon.
_BASH_WORDS = """\
    local words=() cword=$COMP_CWORD rest=$COMP_LINE before i
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        before=$rest
        rest=${rest#"${rest%%[![:space:]]*}"}
        if ((i > 0)) && [[ -n $rest && $before == "$rest" ]]; then
            words[${#words[@]}-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
        rest=${rest#"${COMP_WORDS[i]}"}
        ((i == COMP_CWORD)) && cword=$((${#words[@]} - 1))
    done
"""
_BASH_COLONS = """\
    local word=${words[cword]}
    [[ $word == -*=* ]] && word=${word#*=}
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
    fi
"""


@click.command()
@click.argument("shell", type=click.Choice(sorted(INSTALL)), metavar="bash|zsh|fish")
def completion(shell: str) -> None:
    """Print a script that completes counsel's commands in bash, zsh or fish.

    It completes commands, options and their choices, models, agents, servers, skills, jobs and conversations. zsh and
    fish also show titles. Completion reads files only; it starts no daemon and asks no model.

    \b
    eval "$(counsel completion bash)"     in ~/.bashrc (bash 4.4 or newer)
    eval "$(counsel completion zsh)"      in ~/.zshrc, below compinit
    counsel completion fish | source      in ~/.config/fish/config.fish
    """
    output.answer(script(shell))


def script(shell: str) -> str:
    """click's script, without its `source()`, which starts bash to check the version."""
    kind = get_completion_class(shell)
    assert kind is not None
    completer = kind(cli, {}, "counsel", COMPLETION_VARIABLE)
    template = completer.source_template % completer.source_vars()
    if shell == "bash":
        template = _with_whole_words(template)
    # click's script for fish would cut `claude,codex` and titles at their first comma
    template = template.replace('string split ","', 'string split -m 1 ","')
    return f"# counsel's completion for {shell}. To install it:\n#   {INSTALL[shell]}\n{template}\n"


def _with_whole_words(template: str) -> str:
    assignment = 'COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD'
    before, separator, after = template.partition("    response=")
    assert separator
    assert assignment in after
    after = after.replace(assignment, 'COMP_WORDS="${words[*]}" COMP_CWORD=$cword')
    body, end, rest = after.partition("    return 0\n")
    assert end
    return f"{before}{_BASH_WORDS}{separator}{body}{_BASH_COLONS}{end}{rest}"
