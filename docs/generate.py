"""`make docs`: the parts of this folder that follow from the code; `--check` compares instead of writing.

It writes the import diagram inside `architecture.md`, the findings in `findings.md`, the JSON schemas in `schema/` and
the manual page `tui/wmtop.1`.
"""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from wmtop.engine.doctor import RULES, meaning_of
from wmtop.engine.feed.messages import ToEngine, WrittenLine
from wmtop.engine.run.durable_state import SavedState
from wmtop.engine.snapshot.wire import SnapshotLine

sys.path.insert(0, str(Path(__file__).parent))
from man_page import man_page

HERE = Path(__file__).parent
ROOT = HERE.parent
BEGIN, END = "<!-- imports: made by `make docs` -->", "<!-- imports: end -->"
ROOMS = (
    "engine.core", "engine.core.doctor", "engine.core.judgement", "engine.feed", "engine.fleet", "engine.kafka",
    "engine.pipeline", "engine.taps", "engine.job", "engine.text", "tui.present", "tui.widgets", "tui.screens",
    "tui.replay", "tui.cli",
)  # fmt: skip
"""The folders that the diagram shows; what lies deeper belongs to the nearest one."""
SCHEMAS = {"snapshot": SnapshotLine, "from-engine": WrittenLine, "to-engine": ToEngine, "state": SavedState}


def room_of(module: str) -> str | None:
    """The room that a dotted module (`engine.core.valve`) lies in."""
    inside = [room for room in ROOMS if module == room or module.startswith(f"{room}.")]
    return max(inside, key=len, default=None)


def imports_of(path: Path) -> Iterator[str]:
    """The project's modules that a file imports, as `engine.core.valve`."""
    package = list(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            target = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
            yield target
            yield from (f"{target}.{name.name}" for name in node.names)


def diagram() -> str:
    """The rooms and who imports whom, as a Mermaid flowchart; an arrow points at what is imported."""
    arrows: set[tuple[str, str]] = set()
    for part in ("engine", "tui"):
        for path in (ROOT / part).rglob("*.py"):
            here = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
            for module in imports_of(path):
                there = room_of(module)
                if here and there and here != there:
                    arrows.add((here, there))
    rooms = sorted({room for arrow in arrows for room in arrow})
    lines = ["```mermaid", "flowchart TD"]
    lines += [f'  {room.replace(".", "_")}["{room.replace(".", "/")}"]' for room in rooms]
    lines += [f"  {a.replace('.', '_')} --> {b.replace('.', '_')}" for a, b in sorted(arrows)]
    return "\n".join([*lines, "```"])


def findings() -> str:
    """`findings.md`: every finding, with its code as the anchor."""
    head = (
        "# Findings\n\n"
        "What the doctor (key `d`, `wmtop check`) can find: what it means, how it is recognised, what to do.\n"
        "`wmtop explain CODE` prints the same. Made by `make docs` from the docstrings in `engine/doctor/`.\n"
    )
    return "\n".join([head, *(_finding(code) for code in sorted(RULES))])


def _finding(code: str) -> str:
    meaning = meaning_of(code)
    text = f"## {code}\n\n{meaning.means}\n\n"
    text += f"- **How it is recognised:** {meaning.recognised_by}\n- **What to do:** {meaning.what_to_do}\n"
    links = ", ".join(f"[{other}](#{other})" for other in meaning.not_beside)
    return text + (f"- Not shown if one of these is found, which explains it: {links}.\n" if links else "")


def documents() -> dict[Path, str]:
    """Every generated file with its text."""
    architecture = HERE / "architecture.md"
    text = architecture.read_text()
    before, rest = text.split(BEGIN)
    found = {architecture: f"{before}{BEGIN}\n{diagram()}\n{END}{rest.split(END)[1]}"}
    for name, kind in SCHEMAS.items():
        schema = json.dumps(msgspec.json.schema(kind), indent=1, sort_keys=True, ensure_ascii=False)
        found[HERE / "schema" / f"{name}.json"] = schema + "\n"
    found[HERE / "findings.md"] = findings()
    found[ROOT / "tui" / "wmtop.1"] = man_page()
    return found


def main(arguments: list[str]) -> None:
    """Write what has changed, or with `--check` fail where something has."""
    stale = [path for path, text in documents().items() if not path.exists() or path.read_text() != text]
    if "--check" in arguments:
        if stale:
            sys.exit(f"out of date: {', '.join(str(path.relative_to(ROOT)) for path in stale)}; run make docs")
        return
    (HERE / "schema").mkdir(exist_ok=True)
    for path, text in documents().items():
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
