"""What the golden tests share: the driver, unpacked inputs, and the comparison with `expected/`."""

import difflib
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INPUTS, EXPECTED = HERE / "inputs", HERE / "expected"
PLACE = "/golden"
"""Where inputs lie, in the files of `inputs/` and `expected/`; the tests unpack them somewhere else."""
WIDTH = 120
MAX_DIFF = 60
ENDS = 5


class Driver:
    """The process that runs commands (see `driver.py`)."""

    def __init__(self, place: Path) -> None:
        self._place = place
        path = [ROOT, *(entry for entry in sys.path if entry)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.golden.driver"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=ROOT, env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))},
        )  # fmt: skip

    def wmtop(self, *arguments: object, now_ms: int, **more: Any) -> dict[str, Any]:
        """The exit code of a command, and the JSON that it prints (a list where that is several lines); where it
        prints none, its errors.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"arguments": list(map(str, arguments)), "now_ms": now_ms, "directory": str(self._place), **more}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        done = json.loads(self._process.stdout.readline())
        out, errors = (self._placeless(done[name]).splitlines() for name in ("out", "err"))
        result: dict[str, Any] = {"exit": done["code"]}
        printed = [json.loads(line) for line in out]
        if printed:
            result["json"] = printed[0] if len(printed) == 1 else printed
        if errors:
            result["errors"] = errors
        return result

    def _placeless(self, text: str) -> str:
        return text.replace(str(self._place), PLACE).replace(str(ROOT), "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


def unpack(place: Path) -> None:
    """Unpack all of `inputs/` into an empty directory, with the times of the files; paths in them point to `place`."""
    for archive in sorted(INPUTS.glob("*.tar.xz")):
        with tarfile.open(archive) as tar:
            tar.extractall(place, filter="data")
    for path in place.rglob("*"):
        if path.is_file() and PLACE.encode() in (data := path.read_bytes()):
            times = path.stat()
            path.write_bytes(data.replace(PLACE.encode(), str(place).encode()))
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def compare(family: str, case: str, seen: dict[str, Any]) -> None:
    """Compare with `expected/FAMILY/CASE.json`, or write it with `GOLDEN=update`."""
    path = EXPECTED / family / f"{case}.json"
    text = pretty(seen) + "\n"
    if os.environ.get("GOLDEN") == "update":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return
    assert path.is_file(), f"{path} does not exist: GOLDEN=update writes it"
    expected = path.read_text()
    if text != expected:
        name = str(path.relative_to(HERE))
        lines = list(difflib.unified_diff(expected.splitlines(), text.splitlines(), name, "now", lineterm="", n=1))
        raise AssertionError("\n".join(lines[:MAX_DIFF] + ["…"] * (len(lines) > MAX_DIFF)))


def thinned(value: Any) -> Any:
    """The same with the ends of long lists only, and a checksum of their middle: for cases of which there are many."""
    if isinstance(value, dict):
        return {name: thinned(one) for name, one in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) <= 4 * ENDS:
        return [thinned(one) for one in value]
    middle = value[ENDS:-ENDS]
    sha256 = hashlib.sha256(json.dumps(middle).encode()).hexdigest()
    return [*map(thinned, value[:ENDS]), {"left out": len(middle), "sha256": sha256}, *map(thinned, value[-ENDS:])]


def pretty(value: Any, indent: int = 0, lead: int = 0) -> str:
    """JSON in which what fits on a line, after `lead` characters, is on one line: short, and its diffs can be read."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + lead + len(line) <= WIDTH or not isinstance(value, (dict, list)) or not value:
        return line
    pad = " " * (indent + 1)
    if isinstance(value, list):
        return "[\n" + ",\n".join(pad + pretty(one, indent + 1) for one in value) + f"\n{' ' * indent}]"
    names = [json.dumps(name, ensure_ascii=False) for name in value]
    lines = [
        f"{pad}{name}: {pretty(one, indent + 1, len(name) + 2)}"
        for name, one in zip(names, value.values(), strict=True)
    ]
    return "{\n" + ",\n".join(lines) + f"\n{' ' * indent}}}"
