"""`.ci/have`, which finds or installs what a fresh machine lacks: what it says when it can do neither."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def have(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", ROOT / ".ci" / "have", *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def test_it_prints_the_first_python_that_will_do() -> None:
    done = have("python", PYTHON=f"no-such-python {sys.executable} python3")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{sys.executable}\n", "")


def test_an_old_python_is_not_taken_and_one_line_says_what_to_do(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\nexec "$REAL" -c "import sys; sys.version_info = (3, 10); $2"\n')
    old.chmod(0o755)
    done = have("python", PYTHON=str(old), REAL=sys.executable)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "wmtop needs Python 3.11 or newer; install it, or name it: make PYTHON=/path/to/python3.11 demo\n"
    )


def test_a_python_without_its_venv_module_is_recognised(tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text('#!/bin/sh\nexec "$REAL" -c "import sys; sys.modules[\'ensurepip\'] = None; $2"\n')
    bare.chmod(0o755)
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "sh").symlink_to("/bin/sh")
    done = have("python", PYTHON=str(bare), REAL=sys.executable, PATH=str(tmp_path / "env"))  # no package manager
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"{bare} cannot make virtual environments; install its venv module "
        f"(Debian, Ubuntu: sudo apt-get install {version}-venv)\n"
    )


def test_anything_else_is_a_usage_error() -> None:
    done = have("kafka")
    assert (done.returncode, done.stderr) == (1, "usage: .ci/have python|java|maven|browser\n")
