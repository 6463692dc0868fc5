"""The glossary holds: no word that it replaces is in what users and developers read."""

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

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
NAMES = {
    r"hardly": "almost_no, or a number",
    r"told|tells?|telling": "reported, shows",
    r"stands?|stood|standing": "is, is_frozen, is_stuck",
    r"nobody|somebody|someone|whoever": "name the channel, the program, the user",
    r"anew": "again, recreated",
    r"bears": "has, shows",
    r"mends?|mended": "fix",
    r"wish|wishes": "proposed",
    r"lookers?|sights?": "reader, status",
    r"story|course": "line, history",
    r"inks?": "style",
    r"refires?|refired": "late_firing",
}
"""The words of names, and what is said instead."""
CONSTANTS = re.compile(r"_*(LEAST|MOST)_\w+")
"""The beginnings of constants that are `MIN_` and `MAX_`."""
ALLOWED = {
    "cannot_tell", "CannotTell", "CANNOT_TELL",  # the code of a verdict, in JSON
    "outstanding", "standing_out",
}  # fmt: skip
INVERTED = re.compile(r"(Of|((In|By|For|Up to|At most) )?[Ss]o (many|long|much|far))\b(?! course)")
"""The beginning of a docstring or comment that hides its subject: `Of one task: its host`, `So many are kept`."""
CODE = re.compile(r"```.*?```|``[^`]*``|`[^`]*`", re.DOTALL)


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def comments(path: Path) -> list[tokenize.TokenInfo]:
    """The comments of a module; reading them takes longest."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return [token for token in tokens if token.type == tokenize.COMMENT]


@pytest.fixture(scope="module", autouse=True)
def _later_tests_do_without() -> Iterator[None]:
    """The trees of all modules are a million objects, through which each garbage collection would go."""
    yield
    tree_of.cache_clear()
    comments.cache_clear()


def sentences(path: Path) -> Iterator[str]:
    """Docstrings, comments and texts of a module (names and codes are one word), or a document without its code."""
    if path.suffix != ".py":
        yield path.read_text()
        return
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.value
    for token in comments(path):
        yield token.string


def explanations(path: Path) -> Iterator[str]:
    """Docstrings, also those of constants and fields, and comments of a module."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    before = 0
    for token in comments(path):
        if token.start[0] != before + 1:  # not the next line of the same comment
            yield token.string.lstrip("# ")
        before = token.start[0]


def names(path: Path) -> Iterator[str]:
    """The names that a module defines: of modules, classes, functions, arguments, variables and attributes."""
    yield path.stem
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def words_of(name: str) -> list[str]:
    """`_HARDLY_ANY`, `hardly_any` and `HardlyAny` are `hardly` and `any`."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def test_no_replaced_word_is_part_of_a_name() -> None:
    modules = [path for part in ("engine", "tui", "sample_data", "tests") for path in (ROOT / part).rglob("*.py")]
    assert modules
    any_word = re.compile("|".join(NAMES))
    found = [
        f"{path.relative_to(ROOT)}: {name}; say {better}"
        for path in modules
        for name in sorted(set(names(path)) - ALLOWED)
        for better in replacements(name, any_word)
    ]
    assert not found, "\n".join(found)


def replacements(name: str, any_word: re.Pattern[str]) -> list[str]:
    """What is said instead of a name or a part of it."""
    replaced = [word for word in words_of(name) if any_word.fullmatch(word)]
    better = [text for word in replaced for words, text in NAMES.items() if re.fullmatch(words, word)]
    return [*better, "MIN_, MAX_"] if CONSTANTS.fullmatch(name) else better


def test_no_replaced_word_is_used() -> None:
    modules = [path for part in ("engine", "tui", "sample_data") for path in (ROOT / part).rglob("*.py")]
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert modules
    assert documents
    patterns = {re.compile(rf"(?<![\w.-])({word})(?![\w-])"): better for word, better in REPLACED.items()}
    any_word = re.compile(rf"(?<![\w.-])({'|'.join(REPLACED)})(?![\w-])")
    found = [
        f"{path.relative_to(ROOT)}: '{match[0]}' in '{line.strip()[:120]}'; say {better}"
        for path in (*modules, *documents)
        for text in sentences(path)
        for line in EXCUSED.sub("", CODE.sub("", text)).splitlines()
        if any_word.search(line)
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
