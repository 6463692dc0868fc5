"""A place in a store, for an option that takes only one on this machine: one line with the place as it was typed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from wmtop.engine.system.errors import UsageError
from wmtop.engine.system.places import path_here
from wmtop.tui.cli.main import command_line
from wmtop.tui.cli.options import TARGET_OPTIONS

from ...refusals import refused
from .commands import run

URI = "s3://bucket/a//b"
RECORDING = Path(__file__).parents[2] / "doctor" / "flights-lateness-3h.rec"
COMMANDS = {
    "--state-dir": "run rate --rows 1 --once --state-dir",
    "--record": "run rate --rows 1 --once --record",
    "--firings": "run rate --rows 1 --once --firings",
    "--redact": f"replay {RECORDING} --redact",
    "--out": f"report {RECORDING} -o",
    "--kafka-config": "check kafka://127.0.0.1:1/orders --kafka-config",
    "--ca-file": "attach flink://127.0.0.1:1 --once --ca-file",
    "--client-cert": "attach flink://127.0.0.1:1 --once --client-cert",
    "--auth-file": "attach flink://127.0.0.1:1 --once --auth-file",
    "--config": "--config",
    "--log-file": "--log-file",
    "DIR": "run files --time at --once",
    "[CONFIG]": "chain --once",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    assert os.listdir(tmp_path) == []  # no directory `s3:`


def parameters() -> Iterator[tuple[str, Any]]:
    """All parameters of all commands."""

    def walk(command: Any) -> Iterator[tuple[str, Any]]:
        for parameter in command.params:
            yield max((*parameter.opts, ""), key=len), parameter
        for below in getattr(command, "commands", {}).values():
            yield from walk(below)

    return walk(typer.main.get_command(command_line([])))


def test_every_path_of_the_command_line_is_read_as_a_place() -> None:
    """None is made a path before it is looked at: `s3://bucket` would be the directory `s3:`."""
    found = dict(parameters())
    assert {"--state-dir", "--firings", "--record", "--redact", "--out", "--config"} <= set(found)
    typed = [(name, each.type_descriptor) for name, each in parameters() if hasattr(each, "type_descriptor")]
    paths = [
        (name, of.parameter_info.parser) for name, of in typed if Path in (of.annotation, *get_args(of.annotation))
    ]
    assert {"--state-dir", "--record", "--out", "--config"} <= {name for name, _ in paths}
    assert [name for name, parser in paths if parser is None] == []
    of_targets = {name for name, hint in TARGET_OPTIONS.items() if Path in get_args(get_args(hint)[0])}
    assert {f"--{name.replace('_', '-')}" for name in of_targets} <= set(COMMANDS)


@pytest.mark.parametrize("option", COMMANDS)
def test_a_store_is_refused_with_the_place_as_typed(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *COMMANDS[option].split(), URI)
    assert (code, out) == (2, "")
    [line] = err.splitlines()
    assert f"'{URI}'" in line
    assert option in line


def test_of_the_state_directory_it_is_said_that_it_is_not_supported_yet(capsys: pytest.CaptureFixture[str]) -> None:
    assert "not supported yet" in run(capsys, *COMMANDS["--state-dir"].split(), URI)[2]


@pytest.mark.parametrize("variable", ["WMTOP_CONFIG", "WMTOP_LOG_FILE", "WMTOP_RUN_DIR"])
def test_a_variable_too(variable: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, URI)
    code, out, err = run(capsys, "runs" if variable == "WMTOP_RUN_DIR" else "config")
    assert (code, out) == (2, "")
    [line] = err.splitlines()
    assert variable in line
    assert f"'{URI}'" in line


def test_the_configuration_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("config") / "config.toml"
    file.write_text(f'[targets.orders]\nattach = "kafka://127.0.0.1:1/orders"\nkafka-config = "{URI}"\n')
    monkeypatch.setenv("WMTOP_CONFIG", str(file))
    code, _, err = run(capsys, "config")
    assert code == 2
    [line] = err.splitlines()
    assert f"{file}:3: kafka-config '{URI}'" in line


def test_chains_of_check_too(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "--chain", URI)
    assert (code, out) == (2, "")
    [line] = err.splitlines()
    assert f"'{URI}'" in line


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a/b", "a/b"),
        ("file:/data/x", "/data/x"),
        ("file:///data/x", "/data/x"),
        ("file://localhost/data/x", "/data/x"),
        ("12:30.rec", "12:30.rec"),
        ("c:/x", "c:/x"),
    ],
)
def test_a_path_and_its_uri_are_the_same_place(text: str, path: str) -> None:
    assert path_here(text) == Path(path)


def test_no_password_of_a_place_is_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "run", "rate", "--once", "--firings", "s3://key:hunter22@bucket/f")
    assert code == 2
    assert "hunter22" not in err


def test_the_error_of_a_variable_is_of_the_usual_kind() -> None:
    from wmtop.engine.system.places import variable_path

    with refused(UsageError, "uri", "WMTOP_CONFIG", URI):
        variable_path("WMTOP_CONFIG", URI)
