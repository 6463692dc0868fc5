"""`wmtop.1`: the manual page, made of the command's own help."""

import typer
from typer.testing import CliRunner
from wmtop.tui.cli.main import COMMANDS, HELP, command_line

RUN_SOURCES = ("replay", "files", "kafka", "rate")
WIDTH = 100
HEAD = '.\\" made by `make docs`\n.TH WMTOP 1\n.SH NAME\nwmtop \\- top for stream watermarks\n.SH DESCRIPTION\n'
TAIL = """.SH EXIT STATUS
0: fine. 1: the run failed, or the condition of `check` is met. 2: wrong usage or input. 3: `check` cannot tell.
130, 143: interrupted.
.SH ENVIRONMENT
WMTOP_CONFIG: the configuration file. WMTOP_LOG_FILE, WMTOP_LOG_LEVEL: as --log-file, --log-level. WMTOP_RUN_DIR: where
engines are reached. NO_COLOR: no colours. AWS_ENDPOINT_URL and the other variables of each cloud's own tools: for URIs.
"""


def man_page() -> str:
    """The page in roff: the help of each command, as it is printed."""
    app = command_line([])
    words: list[list[str]] = [[], *([name] for name in COMMANDS), *(["run", source] for source in RUN_SOURCES)]
    sections = [f".SH {' '.join(['wmtop', *each]).upper()}\n.nf\n{_help(app, each)}.fi\n" for each in words]
    return f"{HEAD}{_roff(HELP)}\n{''.join(sections)}{_roff(TAIL)}"


def _help(app: typer.Typer, words: list[str]) -> str:
    done = CliRunner().invoke(
        app, [*words, "--help"], prog_name="wmtop", env={"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH)}
    )
    assert done.exit_code == 0, done.output
    return "".join(_roff(line) + "\n" for line in done.output.rstrip().splitlines())


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e") if not text.startswith(".SH") else text
    return "\\&" + escaped if escaped.startswith(("'", ".")) and not escaped.startswith(".SH") else escaped
