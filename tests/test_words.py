"""The glossary holds: no word that it replaces is in what users and developers read."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPLACED = {
    r"levels?": "watermark",
    r"told|tells|telling": "says, reports, shows",
    r"silent|silently|silence": "idle, without data, does not answer",
    r"(?<!there )(is|are|was|were) no (?!longer|more|one\b)(?=\w)": "is not a",
    r"anew": "again",
    r"bears": "has",
    r"mend(s|ed|ing)?": "fix",
    r"stands?|stood|standing": "is, is frozen, is stuck",
    r"(goes|go|went|going|gone) on": "continues, resumes",
    r"refir(e|es|ed|ing|ings)": "late firing",
    r"somebody|someone|the like|of others|others run|who reads": "name the program",
    r"of (it|them) the (?=user|session|engine|screen)": "subject first",
    r"holder of the watermark|watermark is held by": "held back by",
    r"comes? too late": "late",
    r"(is|are) there already": "already exists",
    r"hangs? up": "closes the connection",
    r"hardly": "almost no",
    r"nobody|whoever": "no channel, no program; name it",
    r"where there (is|are) none": "if it is missing",
    r"what there is to see": "name it",
    r"as far as it goes": "its readable part",
    r"(it|this) is looked (for|at|up)": "subject first",
}
EXCUSED = re.compile(
    r"log levels?|isolation\.level"  # of logging, of Kafka: other levels
    r"|stands? for"  # an abbreviation does
    r"|stand-?by"  # Kafka's word
)
INVERTED = re.compile(r"(Of|((In|By|For|Up to|At most) )?[Ss]o (many|long|much|far))\b(?! course)")
"""The beginning of a docstring or comment that hides its subject: `Of one task: its host`, `So many are kept`."""
CODE = re.compile(r"```.*?```|``[^`]*``|`[^`]*`", re.DOTALL)


def sentences(path: Path) -> Iterator[str]:
    """Docstrings, comments and texts of a module (names and codes are one word), or a document without its code."""
    source = path.read_text()
    if path.suffix != ".py":
        yield source
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def explanations(path: Path) -> Iterator[str]:
    """Docstrings, also those of constants and fields, and comments of a module."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    before = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != before + 1:  # not the next line of the same comment
                yield token.string.lstrip("# ")
            before = token.start[0]


def test_no_replaced_word_is_used() -> None:
    modules = [path for part in ("engine", "tui", "sample_data") for path in (ROOT / part).rglob("*.py")]
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert modules
    assert documents
    patterns = {re.compile(rf"(?<![\w.-])({word})(?![\w-])"): better for word, better in REPLACED.items()}
    found = [
        f"{path.relative_to(ROOT)}: '{match[0]}' in '{line.strip()[:120]}'; say {better}"
        for path in (*modules, *documents)
        for text in sentences(path)
        for line in EXCUSED.sub("", CODE.sub("", text)).splitlines()
        for pattern, better in patterns.items()
        for match in pattern.finditer(line)
    ]
    found += [
        f"{path.relative_to(ROOT)}: '{text.strip()[:120]}'; begin with what it is"
        for path in modules
        for text in explanations(path)
        if INVERTED.match(text)
    ]
    assert not found, "\n".join(found)
