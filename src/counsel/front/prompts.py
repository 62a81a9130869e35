"""MCP prompts: slash commands for an agent's user. A prompt costs no tokens until it is used.

Standard library only: the stdio front answers `prompts/list` and `prompts/get` itself.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping

_MODELS = ("models", "Comma-separated models, @panel or auto (default).", False)
# Claude Code 2.1 gives each argument one word, even if several are quoted, and the whole line in <command-args>. So a
# prompt with free text has no other argument, and its text refers to that line.
_WHOLE = "(If <command-args> is shown above, its whole text is meant, not only the first word.)"
TITLES_SINCE = "2025-06-18"


class Prompt:
    """One slash command.

    `text` contains a `{name}` for each part that depends on an argument; `parts` contains both texts to insert there,
    one with the argument and one without it.
    """

    __slots__ = ("arguments", "description", "parts", "text", "title")

    def __init__(
        self,
        title: str,
        description: str,
        arguments: tuple[tuple[str, str, bool], ...],
        text: str,
        parts: Mapping[str, tuple[str, str]],
    ) -> None:
        self.title, self.description, self.arguments = title, description, arguments
        self.text, self.parts = text, parts

    def listed(self, name: str, version: str) -> dict[str, object]:
        arguments = [
            {"name": argument, "description": about, "required": required}
            for argument, about, required in self.arguments
        ]
        title = {"title": self.title} if version >= TITLES_SINCE else {}
        return {"name": name, **title, "description": self.description, "arguments": arguments}

    def message(self, values: Mapping[str, str]) -> str:
        """The text for an agent. Values are inserted literally: they may contain braces."""
        pieces = self.text.split("{")
        output = [pieces[0]]
        for piece in pieces[1:]:
            name, _, rest = piece.partition("}")
            template, otherwise = self.parts[name]
            value = values.get(name, "").strip()
            if "'VALUE'" in template:  # in a shell command; a branch's name may contain quotes
                value = value.replace("'", "'\\''")
            output += [template.replace("VALUE", value) if value else otherwise, rest]
        return "".join(output)


PROMPTS: dict[str, Prompt] = {
    "review": Prompt(
        "Review a change",
        "Several models review the current change; each finding is checked by another model.",
        (
            ("base", "Commit or branch to compare with (default: the uncommitted change).", False),
            ("focus", "What to focus on, for example security.", False),
            _MODELS,
        ),
        """Have counsel review the change in this repository.

1. If a shell is available, run `counsel review{base}{models} --json` in the repository. It collects the diff, several \
models review it independently, and each finding is checked by a model that did not make it. This can take minutes.
2. If that command is missing, get the diff with git{diff} and call counsel's `consensus` tool with models {list} and the \
changed files in `files`. Ask for findings with file, line, severity, reason and suggestion.
3. Check each finding against the code yourself before you report it.{focus}
4. Report confirmed findings first, most severe first, with file and line. Name disputed ones and say who is right. Change \
no code unless you are asked to.""",
        {
            "base": (" 'VALUE'", ""),
            "diff": (" against 'VALUE'", ""),
            "models": (" -m 'VALUE'", ""),
            "list": ("[VALUE]", '["auto"]'),
            "focus": (" Look especially at: VALUE.", ""),
        },
    ),
    "second_opinion": Prompt(
        "Get a second opinion",
        "Another model gives its opinion on a question, or on what you are doing now.",
        (("question", "The question (default: your current work).", False),),
        f"""Get a second opinion from another model with counsel's `chat` tool.

Subject: {{question}} {_WHOLE}

If it names a model or agent, ask that one; else model "auto". Write a prompt that is complete in itself: the problem, the constraints, what was decided and why. Pass the relevant files \
in `files` instead of quoting them. State your own view only at the end, and ask for what is wrong with it. Then say where \
the two of you agree and disagree, what you change because of it, and what you keep.""",
        {
            "question": ("VALUE", "what we are working on now, and your current approach to it."),
        },
    ),
    "consensus": Prompt(
        "Ask several models",
        "Several models answer one question independently; you compare their answers.",
        (("question", "The question.", True),),
        f"""Ask several models with counsel's `consensus` tool:

{{question}} {_WHOLE}

If it names models, ask those; else models ["auto"]. Make the prompt complete in itself and neutral: do not suggest an answer. Pass the relevant files in `files`. Then report \
what they agree on, where they contradict each other and who says what, good points that only one of them made, and your \
own conclusion. A model that failed is named. Agreement is no proof: check what can be checked.""",
        {"question": ("VALUE", "")},
    ),
    "plan": Prompt(
        "Plan with other models",
        "Write an implementation plan, and let other models criticise it before you start.",
        (("task", "What to build or change.", True),),
        f"""Make a plan for this task; write no code yet:

{{task}} {_WHOLE}

1. Read the relevant code and draft a plan: steps, files, interfaces, tests, risks, and what is out of scope.
2. Send it with counsel's `consensus` tool, models ["auto"], and the relevant files in `files`. Ask what is missing, wrong, \
or simpler, and which step is most likely to fail.
3. Decide on each objection yourself. Show the final plan, the objections that you rejected and why, and open questions.""",
        {"task": ("VALUE", "")},
    ),
    "debug": Prompt(
        "Debug with another model",
        "Another model proposes hypotheses for a bug; you test them.",
        (("problem", "The symptom or error message.", True),),
        f"""Find the cause of this problem together with another model:

{{problem}} {_WHOLE}

1. Reproduce it and collect facts: the exact message, the relevant code, what changed, what was ruled out.
2. Call counsel's `chat` tool with these facts and the files in `files`. Ask for the likely causes, each with a \
check that would confirm or refute it.
3. Run the checks, the cheapest first. Send the results back with the same continuation_id if the cause is still open.
4. Fix only what the evidence shows, and say which check proved it.""",
        {"problem": ("VALUE", "")},
    ),
}
# Parts that show an argument a second time.
_SAME = {"diff": "base", "list": "models"}


def listed(version: str) -> list[dict[str, object]]:
    return [prompt.listed(name, version) for name, prompt in PROMPTS.items()]


def problem(name: object, arguments: object) -> str | None:
    """What is wrong with the parameters of `prompts/get`, if anything."""
    if not isinstance(name, str) or name not in PROMPTS:
        return "Unknown prompt"
    prompt = PROMPTS[name]
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return "arguments must be an object"
    names = [argument for argument, _, _ in prompt.arguments]
    if any(argument not in names for argument in arguments):
        return f"{name} takes these arguments: {', '.join(names)}"
    if non_strings := [argument for argument, value in arguments.items() if not isinstance(value, str)]:
        return f"These arguments must be strings: {', '.join(non_strings)}"
    missing = [
        argument
        for argument, _, required in prompt.arguments
        if required and not str(arguments.get(argument, "")).strip()
    ]
    return f"{name} needs {', '.join(missing)}" if missing else None


def get(name: str, arguments: Mapping[str, str]) -> dict[str, object]:
    """The result of `prompts/get`, for arguments that `problem` accepts."""
    prompt = PROMPTS[name]
    values = {**arguments, **{part: arguments.get(argument, "") for part, argument in _SAME.items()}}
    text = prompt.message(values)
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": prompt.description, "messages": [message]}
