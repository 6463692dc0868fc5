"""How this wmtop was installed, to say how one of its extras is added: from where it came."""

import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import msgspec

NAME = "wmtop"
_NOT_INSTALLED = "git+<this repository>"
"""As README's "Start" has it: of a wmtop that runs without being installed it is not known where it comes from."""


def install_command(extra: str) -> str:
    """The command that installs wmtop again with an extra."""
    # The metadata of a source tree, which may be found first, is not that of an installation.
    installed = next((one for one in distributions(name=NAME) if one.read_text("INSTALLER") is not None), None)
    if installed is None:
        return f"pip install '{_requirement(extra, _NOT_INSTALLED)}'"
    return f"{_tool(installed)} '{_requirement(extra, _origin(installed))}'"


def _requirement(extra: str, origin: str | None) -> str:
    """What a package installer takes; origin None: it came from the package index."""
    return f"{NAME}[{extra}]" if origin is None else f"{NAME}[{extra}] @ {origin}"


def _origin(installed: Distribution) -> str | None:
    """The URL that it was installed from (direct_url.json of PEP 610); None: from the package index."""
    text = installed.read_text("direct_url.json")
    if text is None:
        return None
    try:
        found: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        url = str(found["url"])
        if (vcs := found.get("vcs_info")) is None:
            return url
        revision = vcs.get("requested_revision") or vcs.get("commit_id")
        return f"{vcs['vcs']}+{url}" + (f"@{revision}" if revision else "")
    except (msgspec.DecodeError, KeyError, AttributeError):
        return _NOT_INSTALLED


def _tool(installed: Distribution) -> str:
    """The command of the tool that manages this environment."""
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool install"
    if (prefix / "pipx_metadata.json").exists():
        return "pipx install --force"
    return "uv pip install" if (installed.read_text("INSTALLER") or "").strip() == "uv" else "pip install"
