"""The configuration: what a file may have, what wins, and what of it reaches the commands."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from wmtop.engine.feed import run_directory
from wmtop.engine.system.errors import UsageError
from wmtop.tui.cli import config
from wmtop.tui.cli.config import ConfigError, line_of, parse_config
from wmtop.tui.words import keys
from wmtop.tui.words.texts import THEMES

from ..commands import run
from ..test_exit_codes import wmtop

FULL = """\
# a comment
[targets.orders]
attach = "checkpoints/orders"
bootstrap = "broker:9092"
kafka-config = "client.properties"
fail-if = "stalled_for > 5m"

[targets.clicks]
attach = "flink://jobmanager:8081/clicks"
idle-after = "off"

[ui]
theme = "light"
refresh = "2s"
alerts = ["bell"]

[keys]
lateness-longer = "K"

[defaults.run]
lateness = "45m"
subtasks = 2
conf = ["spark.ui.enabled=false"]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that has a bit of everything, in force."""
    path = tmp_path / "config.toml"
    path.write_text(FULL)
    monkeypatch.setenv(config.FILE_VARIABLE, str(path))
    monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, tempfile.mkdtemp(prefix="wmtop-"))
    yield path
    keys.use_keys({})


def test_it_reads_all_that_it_may_contain(file: Path) -> None:
    read = config.config()
    orders = read.targets["orders"]
    assert orders.attach == str(file.parent / "checkpoints/orders")
    assert orders.options == {"bootstrap": "broker:9092", "kafka_config": file.parent / "client.properties"}
    assert orders.fail_if == "stalled_for > 5m"
    assert read.targets["clicks"].options == {"idle_after": -1}
    assert config.appearance().refresh_ms == 2_000
    assert config.defaults_for_run([])["lateness"] == "45m"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[targets.orders]\natach = 'x'", 2, "did you mean attach?"),
        ("[target.orders]\nattach = 'x'", 1, "did you mean targets?"),
        ("[ui]\n\n# note\ntheme = 'drak'", 4, "contrast"),
        ("[ui]\nrefresh = '0'", 2, "100ms"),
        ("[targets.orders]\nbootstrap = 'b'", 1, "needs attach"),
        ("[targets.a]\nattach = 'x'\nfail-if = 'lag > 1m'", 3, "level_lag"),
        ("[targets.a]\nattach = 'x'\npassword = 'x'", 3, "secrets"),
        ("[targets.a]\nattach = 'http://me:pass@host:8081'", 2, "secrets"),
        ("[targets.a]\nattach = 'x'\nwrites = ['kafka://me:pass@b:9092/t']", 3, "secrets"),
        ("[targets.'a/b']\nattach = 'x'", 1, "name"),
        ("[keys]\nlateness-longr = 'k'", 2, "lateness-longer"),
        ("[keys]\nxyzzy = 'k'", 2, "wmtop config --keys"),
        ("[keys]\nlateness-longer = 'no key'", 2, "not a key"),
        ("[keys]\nlateness-longer = 'w'", 2, "windows"),
        ("[keys]\nlateness-longer = 'k'", 2, "row-up"),
        ("[defaults.run]\nlatenes = '45m'", 2, "lateness"),
        ("[defaults.run]\nlateness = 45", 2, "30m"),
        ("[defaults.run]\nname = 'x'", 2, "unknown key"),
        ("[ui\n", 1, "not TOML: Expected ']'"),
        ("[ui]\ntheme = 'dark'\n[keys]\nquit = \n", 4, "not TOML: Invalid value"),
        ("[ui]\ntheme = 'dark'\ntheme = 'light'\n", 3, "not TOML: Cannot overwrite a value"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, line: int, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as failed:
        parse_config(text, tmp_path / "c.toml")
    words = str(failed.value)
    assert f"c.toml:{line}: " in words
    assert said in words
    assert "\n" not in words


def test_the_line_of_a_key() -> None:
    assert line_of(FULL, ("targets", "orders", "fail-if")) == 6
    assert line_of(FULL, ("targets", "clicks")) == 8
    assert line_of('a."b.c".d = 1\n[e]\n"f g" = 2', ("a", "b.c", "d")) == 1
    assert line_of('a = 1\n[e]\n"f g" = 2', ("e", "f g")) == 3
    assert line_of("[a]\nx = 1", ("a", "missing")) == 1


def test_the_environment_wins_over_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.ui()["theme"] == config.InForce("light", "file")
    assert config.ui()["zone"].origin == "default"
    monkeypatch.setenv("WMTOP_THEME", "dark")
    monkeypatch.setenv("WMTOP_LATENESS", "10m")
    assert config.ui()["theme"] == config.InForce("dark", "environment")
    assert config.run_defaults()["lateness"] == config.InForce("10m", "environment")
    monkeypatch.setenv("WMTOP_THEME", "pink")
    with pytest.raises(UsageError, match="WMTOP_THEME"):
        config.ui()


def test_defaults_that_the_command_line_contradicts_give_way(file: Path) -> None:
    file.write_text("[defaults.run]\nlateness = '45m'\nwindow = '5m'\nmarker = 'x'")
    assert set(config.defaults_for_run(["run", "rate"])) == {"lateness", "window", "marker"}
    assert set(config.defaults_for_run(["run", "rate", "--session", "5m"])) == {"lateness", "marker"}
    assert set(config.defaults_for_run(["run", "rate", "--strategy=none", "--strategy", "none"])) == {"window"}


def test_the_command_shows_what_is_in_force(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "config")
    assert code == 0
    assert "# line 3" in next(line for line in out.splitlines() if line.startswith("attach"))
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert 'zone = "utc" # default' in lines
    assert any(line.startswith('idle-after = "off" # line ') for line in lines)
    listed = run(capsys, "config", "--keys")[1]
    assert next(line for line in listed.splitlines() if line.startswith("lateness-longer ")).split()[1] == "K"


def test_a_named_file_must_be_there(capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path) -> None:
    code, out, err = run(capsys, "--config", str(tmp_path / "none.toml"), "config")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "none.toml" in err


def test_other_keys_change_footer_and_help() -> None:
    try:
        keys.use_keys({"doctor": "D", "lateness-longer": "+", "windows": "ctrl+w"})
        assert keys.chosen_keys() == {"doctor": "D", "lateness-longer": "plus", "windows": "ctrl+w"}
        assert keys.hint("doctor").keys == "D"
        assert "D" in [row.shown for row in keys.rows("main")]
        assert {link.name: link.key for link in keys.links()}["Windows"] == "ctrl+w"
    finally:
        keys.use_keys({})
    assert keys.hint("doctor").keys == "d"


def test_the_themes_that_may_be_named_are_there() -> None:
    from wmtop.tui.widgets import themes

    named = {f"wmtop-{name}" for name in THEMES}
    assert named == {theme.name for theme in themes.THEMES}


@pytest.mark.parametrize("kind", ["fifo", "long", "nested", "dotted", "directory"])
def test_a_file_that_is_no_configuration_is_one_line_at_once(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    else:
        file.write_text(
            {"long": "#" * 2_000_000, "nested": "a = " + "[" * 20_000, "dotted": ".".join("a" * 20_000)}[kind]
        )
    done = wmtop("--config", file, "check", "/nowhere")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert str(file) in done.stderr
