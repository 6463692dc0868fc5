"""A real Flink behind a proxy: clocks that differ, TLS, credentials, a path prefix, a redirect."""

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from wmtop.engine.feed import run_directory
from wmtop.engine.targets.flink.rest import LOGIN_VARIABLE, TOKEN_VARIABLE

from .flinks import BASE_MS, Flink, Watching
from .proxies import proxy

SECRET = "correct-horse-battery"
TEN_MINUTES_MS = 600_000
WATERMARK_MS = BASE_MS + 2_999


@pytest.fixture(scope="module", autouse=True)
def own_run_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        directory = f"/tmp/wmtop-proxied-{os.getpid()}"
        patch.setenv(run_directory.RUN_DIR_VARIABLE, directory)
        yield Path(directory)


@pytest.fixture(scope="module", autouse=True)
def both_have_sent(flink: Flink) -> None:
    """Both splits of `orders` are at 3 s."""
    for split in ("ord-0", "ord-1"):
        flink.write(split, 1, 2, 3)
    Watching(flink.url, "orders").see(lambda s: s.level.watermark_ms == WATERMARK_MS, "both have sent")


def look(target: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wmtop.tui.cli", "attach", target, "--once", "--json", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **variables}
    )


def job_seen(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    snapshot = json.loads(done.stdout)
    assert (snapshot["flink"]["name"], snapshot["flink"]["state"]) == ("orders", "RUNNING")
    assert SECRET not in done.stdout + done.stderr
    return snapshot


@pytest.mark.parametrize("shift_ms", [-TEN_MINUTES_MS, TEN_MINUTES_MS])
def test_a_jobmanager_whose_clock_differs_is_neither_stale_nor_fresh_for_ever(flink: Flink, shift_ms: int) -> None:
    with proxy(flink.url, shift_ms=shift_ms) as there:
        watching = Watching(there.url, "orders")
        seen = watching.see(lambda s: s.level.watermark_ms == WATERMARK_MS, "the dump is read")
        assert seen.state == "live"
        assert 0 <= seen.job.clock_ms - seen.job.sampled_ms < 15_000
        assert abs(seen.job.clock_ms - seen.now_ms - shift_ms) < 5_000
        facts = watching.watch.poll()
        later = watching.watch.picture("test", facts, seen.now_ms + 60_000).snapshot  # no answer has come for a minute
        assert later.state == "stale"


def test_tls_needs_the_authority_and_the_client_certificate(flink: Flink, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "client.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    ca, client = ("--ca-file", str(tmp_path / "ca.pem")), ("--client-cert", str(tmp_path / "client.pem"))
    with proxy(flink.url, context=context) as there:
        job_seen(look(f"{there.url}/orders", *ca, *client))
        for given in ((), ca):
            done = look(f"{there.url}/orders", *given)
            assert done.returncode == 2
            assert "Traceback" not in done.stderr


@pytest.mark.parametrize("by_file", [False, True])
def test_credentials_by_variable_and_by_file(flink: Flink, tmp_path: Path, by_file: bool) -> None:
    """A bearer token in a variable, a login in a file; another one is refused."""
    login = f"me:{SECRET}"
    basic = "Basic " + base64.b64encode(login.encode()).decode()
    file = tmp_path / "secret"
    file.write_text(login + "\n")
    with proxy(flink.url, authorization=basic if by_file else f"Bearer {SECRET}", prefix="/flink/prod") as there:
        target = f"{there.url}/orders"
        job_seen(look(target, "--auth-file", str(file)) if by_file else look(target, **{TOKEN_VARIABLE: SECRET}))
        refused = look(target, **{LOGIN_VARIABLE if by_file else TOKEN_VARIABLE: SECRET + ":x"})
        assert refused.returncode == 2
        assert SECRET not in refused.stderr
        assert all(path.startswith("/flink/prod/") for path, _ in there.asked)


def test_a_redirect_carries_no_credentials_to_another_host(flink: Flink) -> None:
    with proxy(flink.url) as other, proxy(flink.url, redirect=other.url) as there:
        done = look(f"{there.url}/orders", **{TOKEN_VARIABLE: SECRET})
        assert done.returncode == 2
        assert other.url in done.stderr
        assert SECRET not in done.stderr
        assert not other.asked


def test_no_secret_is_in_the_command_the_recording_or_the_log(
    flink: Flink, tmp_path: Path, own_run_directory: Path
) -> None:
    recording = tmp_path / "run.wmtop"
    with proxy(flink.url, authorization=f"Bearer {SECRET}") as there:
        command = [sys.executable, "-m", "wmtop.tui.cli", "attach", f"{there.url}/orders", "--json", "--headless"]
        watch = subprocess.Popen(
            [*command, "--record", str(recording)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, TOKEN_VARIABLE: SECRET},
        )  # fmt: skip
        assert watch.stdout is not None
        lines = [watch.stdout.readline() for _ in range(3)]
        shown = Path(f"/proc/{watch.pid}/cmdline").read_bytes()
        left = [file.read_bytes() for file in own_run_directory.rglob("*") if file.is_file()]
        watch.send_signal(signal.SIGINT)
        said = watch.communicate(timeout=30)
    replayed = subprocess.run(
        [sys.executable, "-m", "wmtop.tui.cli", "replay", str(recording), "--once", "--json"],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    words = "".join((*lines, *said)).encode()
    everything = b"".join([shown, *left, recording.read_bytes(), replayed, words])
    assert b"orders" in everything
    assert SECRET.encode() not in everything
