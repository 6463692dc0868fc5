"""No error shows a secret in force, whatever form it has there; and no address with a password is taken."""

import base64
import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest
from wmtop.engine.system.errors import RunError, UsageError, first_line, one_line, unexpected, without_secrets
from wmtop.engine.targets.open import open_target

from .tui.cli.test_exit_codes import wmtop

SECRET = 'gé"heim/1234'


@pytest.mark.parametrize("variable", ["WMTOP_FLINK_TOKEN", "KAFKA_SASL_PASSWORD", "AWS_SECRET_ACCESS_KEY"])
@pytest.mark.parametrize("ends", ["", "\n"])
def test_a_secret_of_the_environment_shows_in_no_form(
    variable: str, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, SECRET + ends)
    forms = [
        SECRET,
        json.dumps(SECRET)[1:-1],
        repr(SECRET),
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
    ]
    for form in forms:
        for shown in (str(UsageError(f"bad {form}!")), str(RunError(form)), first_line(ValueError(f"x {form}"))):
            assert "heim" not in shown
            assert form not in shown
        assert form not in one_line(f"a {form}")
        assert form not in unexpected(OSError(f"header b'Bearer {form}'"))


def test_a_login_is_hidden_with_its_password_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMTOP_FLINK_LOGIN", "me:geheim123")
    assert without_secrets("Basic me:geheim123, password geheim123 of me") == "Basic ***, password *** of me"


@pytest.mark.parametrize(
    "text",
    [
        "kafka://b1:9092,b2:9092/orders",
        "flink://[::1]:8081/job@home",
        "abfss://box@account.example/ckpt",
        "a:b@c",
        "file:/a/b:c@d",
        "http://h:1/p@q",
    ],
)
def test_an_address_without_a_password_stays(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize("address", ["kafka:/me:geheim@there:9/t", "s3://me:geheim@bucket/x"])
def test_a_password_in_an_address_is_refused_and_hidden_also_behind_one_slash(address: str) -> None:
    assert "geheim" not in without_secrets(f"there is nothing at {address}")
    with pytest.raises(UsageError) as caught:
        open_target(address)
    assert "geheim" not in str(caught.value)
    assert "password" in str(caught.value)


@pytest.mark.parametrize("command", ["check", "attach", "serve", "export --json --once", "advise"])
@pytest.mark.parametrize(
    "address",
    ["kafka://me:geheim@localhost:9/t", "flink://me:ge/heim@localhost:9/t", "flink://[::1", "x" * 100_000, "s3://a\0b"],
)
def test_an_address_that_is_none_is_one_line(command: str, address: str) -> None:
    if "\0" in address or len(address) > 4_096:  # no argument of a process has it, or is so long on some systems
        with pytest.raises(UsageError):
            open_target(address)
        return
    done = wmtop(*command.split(), address)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "heim" not in done.stdout + done.stderr


def test_a_flink_token_with_a_line_feed_is_never_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for token in ("geheim1234\n", "gehe\nim1234"):
        done = wmtop(
            "--log-file", log, "check", "flink://localhost:9/job", env={"WMTOP_FLINK_TOKEN": token, "WMTOP_TRACE": "1"}
        )
        shown = done.stdout + done.stderr + log.read_text()
        assert done.returncode in (2, 3)
        assert not any(part in shown for part in ("geheim1234", "im1234"))


@pytest.mark.parametrize("option", ["--kafka-config", "--auth-file"])
def test_a_file_of_secrets_that_is_too_large_is_one_line_with_the_bound(option: str, tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_bytes(b"a" * (1 << 20) + b"a")
    target = "kafka://localhost:9/orders" if option == "--kafka-config" else "flink://localhost:9/job"
    done = wmtop("attach", target, option, file, "--once")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert all(part in done.stderr for part in (option, str(file), "1 MB"))
    assert "aaaa" not in done.stdout + done.stderr


@pytest.mark.parametrize("option", ["--kafka-config", "--auth-file"])
def test_a_pipe_in_place_of_a_file_of_secrets_is_one_line(option: str, tmp_path: Path) -> None:
    """To open it would wait for its writer."""
    os.mkfifo(pipe := tmp_path / "secrets")
    target = "kafka://localhost:9/orders" if option == "--kafka-config" else "flink://localhost:9/job"
    done = wmtop("attach", target, option, pipe, "--once")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert all(part in done.stderr for part in (option, str(pipe), "regular file"))
