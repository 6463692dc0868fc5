"""`make docs`: the parts of this folder that follow from the code; `--check` compares instead of writing.

It writes the tables of imports and of the stable surface in `architecture.md`, that of the keys in `README.md`, the
findings in `findings.md`, the JSON schemas in `schema/` and the manual page `tui/wmtop.1`.
"""

import ast
import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
from wmtop.engine import verdict, watermarks
from wmtop.engine.doctor import RULES, meaning_of
from wmtop.engine.feed.messages import SnapshotLine, ToEngine, WrittenLine
from wmtop.engine.run.durable_state import SavedState
from wmtop.tui.words.keys import LINKS, rows

sys.path.insert(0, str(Path(__file__).parent))
from man_page import man_page

HERE = Path(__file__).parent
ROOT = HERE.parent
SURFACE = (watermarks, verdict)
"""The packages whose names stay."""
SCHEMAS = {"snapshot": SnapshotLine, "from-engine": WrittenLine, "to-engine": ToEngine, "state": SavedState}


def layers() -> list[str]:
    """The folders of the contract in pyproject.toml, from the bottom to the top, as `engine.watermarks`."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [found] = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [layer.removeprefix("wmtop.") for layer in reversed(found)]


def layer_of(module: str, known: list[str]) -> str | None:
    """The layer that a dotted module (`engine.watermarks.valve`) is in; None for a package above the layers."""
    return next((layer for layer in known if module == layer or module.startswith(f"{layer}.")), None)


def imports_of(path: Path) -> Iterator[str]:
    """The project's modules that a file imports, as `engine.watermarks.valve`."""
    package = list(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            target = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
            yield target
            yield from (f"{target}.{name.name}" for name in node.names)


def imports() -> str:
    """The layers from the top down, and what each imports, as a table."""
    known = layers()
    imported: dict[str, set[str]] = {layer: set() for layer in known}
    for part in ("engine", "tui"):
        for path in (ROOT / part).rglob("*.py"):
            here = layer_of(".".join(path.relative_to(ROOT).with_suffix("").parts), known)
            if here:
                imported[here] |= {there for module in imports_of(path) if (there := layer_of(module, known))}
    lines = ["| layer | imports |", "| --- | --- |"]
    for layer in reversed(known):
        below = [f"`{other.replace('.', '/')}`" for other in reversed(known) if other in imported[layer] - {layer}]
        lines.append(f"| `{layer.replace('.', '/')}` | {', '.join(below) or 'nothing of wmtop'} |")
    return "\n".join(lines)


def surface() -> str:
    """The names of the stable packages, as a table."""
    lines = ["| package | names |", "| --- | --- |"]
    for package in SURFACE:
        folder = package.__name__.removeprefix("wmtop.").replace(".", "/")
        lines.append(f"| `{folder}` | {', '.join(f'`{name}`' for name in package.__all__)} |")
    return "\n".join(lines)


def keys() -> str:
    """The keys of the main screen, as a table."""
    linked = [link.key for link in LINKS]
    lines = ["| keys | |", "|---|---|"]
    for row in rows("main", "app"):
        shown, words = row.shown.split(), row.help
        if row.shown == linked[0]:
            shown, words = linked, f"{', '.join(link.name.lower() for link in LINKS)}; `Esc` comes back"
        elif row.shown in linked:
            continue
        lines.append(f"| {' '.join(f'`{key}`' for key in shown)} | {words} |")
    return "\n".join(lines)


def with_parts(text: str, parts: dict[str, str]) -> str:
    """The text with each part between its markers replaced."""
    for name, part in parts.items():
        begin, end = f"<!-- {name}: made by `make docs` -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{part}\n{end}{rest.split(end)[1]}"
    return text


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
    architecture, readme = HERE / "architecture.md", ROOT / "README.md"
    found = {architecture: with_parts(architecture.read_text(), {"imports": imports(), "surface": surface()})}
    found[readme] = with_parts(readme.read_text(), {"keys": keys()})
    found[HERE / "findings.md"] = findings()
    for name, kind in SCHEMAS.items():
        schema = json.dumps(msgspec.json.schema(kind), indent=1, sort_keys=True, ensure_ascii=False)
        found[HERE / "schema" / f"{name}.json"] = schema + "\n"
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
