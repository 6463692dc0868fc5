"""What `docs/` derives from the code is up to date, and its links lead somewhere."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_what_is_generated_follows_from_the_code() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link]
    missing = [link for link in local if not (page.parent / link).exists()]
    assert not missing


def test_files_named_in_the_architecture_exist() -> None:
    named = re.findall(r"`((?:engine|tui|tests|docs)/[\w/.]+)`", (ROOT / "docs" / "architecture.md").read_text())
    missing = [name for name in named if not (ROOT / name).exists()]
    assert named
    assert not missing


def test_every_folder_has_its_sentence_in_the_architecture() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    packages = [*(ROOT / "engine").rglob("__init__.py"), *(ROOT / "tui").rglob("__init__.py")]
    folders = {package.parent.relative_to(ROOT) for package in packages}
    missing = [folder for folder in folders if len(folder.parts) > 1 and f"| `{folder}` | " not in page]
    assert not missing


def test_manual_page_prints_each_option_once() -> None:
    lines = (ROOT / "tui" / "wmtop.1").read_text().splitlines()
    options = [after.split()[0] for line, after in pairwise(lines) if line == ".TP" and after.startswith(r"\-")]
    assert len(options) > 50
    assert len(options) == len(set(options))
