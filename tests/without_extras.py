"""An interpreter as it is without the packages that the extras of wmtop bring: for what must work without them."""

import sys
from importlib.abc import MetaPathFinder
from typing import Any

EXTRAS = ("pyspark", "py4j", "pyarrow", "numpy", "pandas", "textual_serve", "aiohttp", "fsspec")


class _Absent(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def hide_extras() -> None:
    """From now on this process cannot import them."""
    assert not set(EXTRAS) & set(sys.modules)
    sys.meta_path.insert(0, _Absent())


def main() -> None:
    """`python -m tests.without_extras ARGUMENTS`: wmtop in such an interpreter."""
    hide_extras()
    from wmtop.tui.cli import main

    main()


if __name__ == "__main__":
    main()
