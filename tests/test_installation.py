"""How an extra is installed is said as this wmtop was: no command takes it from an index that it did not come from."""

import json
import sys
from pathlib import Path

import pytest
from wmtop.engine.system.installation import install_command

TREE = "git+<this repository>"
REPOSITORY = "https://host/wmtop.git"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where packages are looked for, in an environment of its own."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


def install(site: Path, installer: str | None = "pip", **direct_url: object) -> None:
    metadata = site / ("wmtop-0.1.0.dist-info" if installer else "wmtop.egg-info")
    metadata.mkdir()
    (metadata / ("METADATA" if installer else "PKG-INFO")).write_text(
        "Metadata-Version: 2.1\nName: wmtop\nVersion: 0.1.0\n"
    )
    if installer:
        (metadata / "INSTALLER").write_text(installer + "\n")
    if direct_url:
        (metadata / "direct_url.json").write_text(json.dumps(direct_url))


@pytest.mark.parametrize(
    ("direct_url", "origin"),
    [
        ({"url": REPOSITORY, "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}, f"git+{REPOSITORY}@c0ffee"),
        (
            {"url": REPOSITORY, "vcs_info": {"vcs": "git", "commit_id": "c0ffee", "requested_revision": "v1"}},
            f"git+{REPOSITORY}@v1",
        ),
        ({"url": "file:///src/wmtop", "dir_info": {"editable": True}}, "file:///src/wmtop"),
        ({"url": "file:///w/wmtop-0.1.0-py3-none-any.whl", "archive_info": {}}, "file:///w/wmtop-0.1.0-py3-none-any.whl"),
        ({"no": "url"}, TREE),
    ],
    ids=["commit", "revision", "directory", "wheel", "unknown"],
)  # fmt: skip
def test_it_is_installed_again_from_where_it_came(site: Path, direct_url: dict[str, object], origin: str) -> None:
    install(site, **direct_url)
    assert install_command("run") == f"pip install 'wmtop[run] @ {origin}'"


def test_from_the_index_only_what_came_from_it(site: Path) -> None:
    install(site)
    assert install_command("s3") == "pip install 'wmtop[s3]'"


def test_of_a_source_tree_it_is_said_as_readme_does(site: Path) -> None:
    assert install_command("run") == f"pip install 'wmtop[run] @ {TREE}'"
    install(site, None)
    assert install_command("run") == f"pip install 'wmtop[run] @ {TREE}'"
    readme = Path(__file__).parents[1].joinpath("README.md").read_text()
    assert f"'wmtop[run] @ {TREE}'" in readme


@pytest.mark.parametrize(
    ("mark", "installer", "command"),
    [
        ("uv-receipt.toml", "uv", "uv tool install"),
        ("pipx_metadata.json", "pip", "pipx install --force"),
        (None, "uv", "uv pip install"),
    ],
)
def test_by_the_tool_that_installed_it(site: Path, mark: str | None, installer: str, command: str) -> None:
    install(site, installer)
    if mark is not None:
        (site / mark).write_text("")
    assert install_command("run") == f"{command} 'wmtop[run]'"
