"""What is in the tree is in the wheel, nothing else is, and imports point one way."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("engine", "tui", "sample_data")
NOT_SHIPPED = {".md", ".svg", ".png"}
"""Documents and pictures beside the code: everything else belongs into the wheel."""
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())


def tree() -> set[str]:
    """The files to ship, as the wheel must name them."""
    files = [path for part in PARTS for path in (ROOT / part).rglob("*") if path.is_file()]
    wanted = [path for path in files if path.suffix not in NOT_SHIPPED and "__pycache__" not in path.parts]
    return {f"wmtop/{path.relative_to(ROOT).as_posix()}" for path in wanted}


@pytest.fixture(scope="module")
def clean_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree without what earlier builds left in it: setuptools would ship a stale build/lib."""
    copy = tmp_path_factory.mktemp("tree")
    for part in PARTS:
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(clean_copy: Path) -> zipfile.ZipFile:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
    done = subprocess.run(build, cwd=clean_copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = (clean_copy / "dist").glob("*.whl")
    return zipfile.ZipFile(path)


def text_of(wheel: zipfile.ZipFile, name: str) -> str:
    [path] = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(path).decode()


def test_every_package_is_listed() -> None:
    packages = {path.rsplit("/", 1)[0].replace("/", ".") for path in tree() if path.endswith(".py")}
    assert sorted(packages) == sorted(CONFIG["tool"]["setuptools"]["packages"])
    assert all(f"{package.replace('.', '/')}/__init__.py" in tree() for package in packages)


def test_the_wheel_holds_the_tree_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    assert {path for path in wheel.namelist() if ".dist-info/" not in path and ".data/" not in path} == tree()
    assert [path for path in wheel.namelist() if path.endswith(".data/data/share/man/man1/wmtop.1")]
    assert {"wmtop/sample_data/flights.parquet", "wmtop/engine/py.typed", "wmtop/tui/py.typed"} <= tree()


def test_the_wheel_installs_the_command_and_carries_the_licence(wheel: zipfile.ZipFile) -> None:
    assert "wmtop = wmtop.tui.cli:main" in text_of(wheel, "entry_points.txt")
    assert text_of(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text()
    described = text_of(wheel, "METADATA")
    assert "License-Expression: Apache-2.0" in described
    assert "Requires-Python: >=3.11" in described
    assert (ROOT / "README.md").read_text().strip() in described


def imported(path: Path) -> set[str]:
    """The top-level names of what a module imports from outside its own package."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in names}


def names_of(requirements: list[str]) -> set[str]:
    """The distributions that requirements name, without those of extras."""
    return {re.split(r"[^\w.-]", line)[0].lower() for line in requirements if "extra ==" not in line}


def test_what_the_code_imports_comes_with_it() -> None:
    modules = [path for part in PARTS for path in (ROOT / part).rglob("*.py")]
    foreign = set().union(*map(imported, modules)) - sys.stdlib_module_names - {"compression"}  # Python 3.14
    extras = CONFIG["project"]["optional-dependencies"]
    users = [line for extra in ("run", "serve", "s3", "fsspec") for line in extras[extra]]
    declared = names_of(CONFIG["project"]["dependencies"] + users)
    installed = declared.union(*(names_of(metadata.requires(name) or []) for name in declared))  # py4j by pyspark
    distributions = metadata.packages_distributions()
    assert {"pyspark", "textual"} <= foreign
    assert [name for name in foreign if not {found.lower() for found in distributions[name]} & installed] == []


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """The contracts of pyproject.toml on the packages under `root`/wmtop."""
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", command, "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def installed(clean_copy: Path, tmp_path: Path) -> Path:
    """A directory with the packages as an installation lays them out."""
    for part in ("engine", "tui"):
        shutil.copytree(clean_copy / part, tmp_path / "wmtop" / part)
    return tmp_path


def test_imports_point_one_way(installed: Path) -> None:
    done = lint_imports(installed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " kept, 0 broken" in done.stdout


LAYERS = "imports point one way, from each layer to those below it"
PURE = "what is computed and what is said is pure: no Textual, no Spark"
ACYCLIC = "no cycle between folders or files"
APART = "only the command line joins the screen with Spark, Kafka and targets"


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("engine/feed/messages.py", "from ...tui import screens", LAYERS),
        ("engine/watermarks/valve.py", "from ..feed import messages", LAYERS),
        ("engine/doctor/finding.py", "from ..targets import discover", LAYERS),
        ("engine/targets/spark/files.py", "from ...run import sources", LAYERS),
        ("tui/words/keys.py", "from ..widgets import barrel", LAYERS),
        ("tui/words/keys.py", "import textual", PURE),
        ("engine/watermarks/times.py", "from . import valve", ACYCLIC),
        ("tui/screens/__init__.py", "from ...engine.run import sources", APART),
    ],
)
def test_an_import_that_points_the_other_way_is_found(installed: Path, module: str, line: str, contract: str) -> None:
    with (installed / "wmtop" / module).open("a") as file:
        file.write(f"\n{line}\n")
    done = lint_imports(installed)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{contract} BROKEN" in done.stdout


def test_what_starts_the_workers_can_be_run(wheel: zipfile.ZipFile) -> None:
    assert wheel.getinfo("wmtop/engine/run/worker-python").external_attr >> 16 & 0o111
