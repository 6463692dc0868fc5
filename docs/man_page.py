"""`wmtop.1`: the manual page, made of the definitions of the commands; it prints each option once."""

from collections.abc import Iterator
from typing import Any

import typer
from wmtop.tui.cli.main import HELP, command_line

HEAD = '.\\" made by `make docs`\n.TH WMTOP 1\n.nh\n.SH NAME\nwmtop \\- top for stream watermarks\n'
TAIL = """.SH EXIT STATUS
0: fine. 1: the run failed, or the condition of `check` is met. 2: wrong usage or input. 3: `check` cannot tell.
130, 143: interrupted.
.SH ENVIRONMENT
WMTOP_CONFIG: the configuration file. WMTOP_LOG_FILE, WMTOP_LOG_LEVEL: as --log-file, --log-level. WMTOP_RUN_DIR: where
engines are reached. NO_COLOR: no colours. AWS_ENDPOINT_URL and the other variables of each cloud's own tools: for URIs.
"""


def man_page() -> str:
    """The page in roff: what the command is, its commands with the names of their options, all options, exit codes."""
    contexts = list(_contexts(typer.main.get_command(command_line([])), None))
    return "".join([HEAD, f".SH DESCRIPTION\n{_roff(HELP)}\n", _commands(contexts), _options(contexts), _roff(TAIL)])


def _contexts(command: Any, parent: Any) -> Iterator[Any]:
    """The context of a command, and of those below it."""
    context = command.make_context(command.name or "wmtop", [], parent=parent, resilient_parsing=True)
    context.info_name = "wmtop" if parent is None else command.name
    yield context
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _contexts(command.get_command(context, name), context)


def _commands(contexts: list[Any]) -> str:
    """A section of each command: usage, what it does, its arguments, the names of its options, examples."""
    lines = [".SH COMMANDS"]
    for context in contexts:
        command = context.command
        lines += [f".SS {_roff(command.get_usage(context).removeprefix('Usage: '))}", _roff(_text(command.help))]
        for argument in _of_kind(command, "argument"):
            lines += [".TP", _roff(argument.metavar or argument.human_readable_name), _roff(_text(argument.help))]
        options = [_names(option) for option in _of_kind(command, "option")]
        if options:
            lines += [".PP", _roff(f"Options: {', '.join(options)}.")]
        if command.epilog:
            examples = [line.strip() for line in command.epilog.splitlines() if line.strip().startswith("wmtop")]
            lines += [".PP", ".nf", *map(_roff, examples), ".fi"]
    return "\n".join(lines) + "\n"


def _options(contexts: list[Any]) -> str:
    """Every option once, in the order of their names; what it means to some commands only is said with their names."""
    found: dict[str, tuple[dict[str, None], dict[str, list[str]]]] = {}
    for context in contexts:
        for option in _of_kind(context.command, "option"):
            metavars, meanings = found.setdefault(_names(option), ({}, {}))
            if option.metavar:
                metavars[option.metavar] = None
            meanings.setdefault(_text(option.help), []).append(context.command_path)
    lines = [".SH OPTIONS"]
    for names, (metavars, meanings) in sorted(found.items()):
        lines += [".TP", _roff(f"{names} {' or '.join(metavars)}".rstrip())]
        several = len(meanings) > 1
        texts = [f"{', '.join(commands)}: {text}" if several else text for text, commands in meanings.items()]
        lines += [_roff(texts[0]), *(line for text in texts[1:] for line in (".br", _roff(text)))]
    return "\n".join(lines) + "\n"


def _of_kind(command: Any, kind: str) -> list[Any]:
    return [each for each in command.params if each.param_type_name == kind and not getattr(each, "hidden", False)]


def _names(option: Any) -> str:
    return ", ".join([*option.opts, *option.secondary_opts])


def _text(help_text: str | None) -> str:
    return " ".join((help_text or "").split())


def _roff(text: str) -> str:
    """The text with backslashes and hyphens as they are typed, and no line taken for a request but section titles."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").split("\n")
    return "\n".join("\\&" + line if line.startswith(("'", ".")) and line[:3] != ".SH" else line for line in lines)
