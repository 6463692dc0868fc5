"""`wmtop check` as a script calls it: exit codes, JSON, and what it does not import."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.messages import Reply
from wmtop.engine.feed.publisher import Publisher
from wmtop.engine.feed.recording_writer import RecordingWriter
from wmtop.engine.snapshot import Reason, Snapshot, SparkProgress, Verdict
from wmtop.engine.system.remote_files import REQUEST_S
from wmtop.engine.targets.target import Pace
from wmtop.tui import cli
from wmtop.tui.cli.check import MIN_S, NO_ANSWER, hangs_after_s
from wmtop.tui.cli.targets import Look, Member, follow
from wmtop.tui.words.check import CheckInput, reason_of
from wmtop.tui.words.recent import Recent

from tests.snapshots import replace

from ...doctor.patients import problem
from ...doctor.streams import MINUTE, SECOND, SETTINGS, Stream, traffic
from ..canned import header
from .checkpoints import checkpoint, history

HEALTHY = Stream().run(120, traffic("abcd"))
STUCK = Stream(replace(SETTINGS, idle_after_ms=None)).run(60, traffic("abcd")).run(180, traffic("ab"))


def recorded(path: Path, stream: Stream) -> Path:
    """A recording of all that the stream published."""
    with RecordingWriter(path, header()) as writer:
        for snapshot in stream.published:
            writer.append(snapshot)
    return path


def checked(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of `wmtop check …`."""
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["wmtop", "check", *map(str, arguments)])
        try:
            cli.main()
        except SystemExit as over:
            code = int(over.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_a_healthy_recording_is_0_and_a_stuck_one_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    well, ill = recorded(tmp_path / "well.rec", HEALTHY), recorded(tmp_path / "ill.rec", STUCK)
    code, out, _ = checked(capsys, well, "--json")
    result = json.loads(out)
    assert (code, result["exit"], result["verdict"], result["findings"]) == (0, 0, "moving", [])
    code, out, _ = checked(capsys, ill, "--json")
    result = json.loads(out)
    assert (code, result["exit"], result["verdict"]) == (1, 1, "stalled")
    [finding] = result["findings"]
    assert set(finding) >= {"code", "severity", "channels", "cause", "fix"}
    assert (finding["code"], finding["severity"], finding["channels"]) == ("silent-channels", "critical", ["c", "d"])
    assert set(result) >= {"target", "verdict", "reason", "findings", "facts", "exit"}
    assert result["facts"]["stalled_for"] >= 2 * MINUTE
    code, out, _ = checked(capsys, well, ill)
    assert code == 1
    assert len(out.splitlines()) > 2


def test_a_run_without_a_watermark_cannot_be_judged_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    young = recorded(tmp_path / "young.rec", Stream().wait(20 * SECOND, SECOND))
    code, out, _ = checked(capsys, young, "--json")
    result = json.loads(out)
    assert (code, result["verdict"], [one["code"] for one in result["findings"]]) == (3, "unknown", ["cannot-tell-yet"])
    well = recorded(tmp_path / "well.rec", HEALTHY)
    first = HEALTHY.past[0].now_ms
    assert checked(capsys, well, "--at", first + 5_000)[0] == 0, "the first advance is the first verdict"


def test_with_a_condition_that_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ill = recorded(tmp_path / "ill.rec", STUCK)
    code, out, _ = checked(capsys, ill, "--fail-if", "behind_fastest > 1m", "--json")
    assert (code, "behind_fastest" in json.loads(out)["met"]) == (1, True)
    assert checked(capsys, ill, "--fail-if", "behind_fastest > 1h")[0] == 0
    code, out, _ = checked(capsys, ill, "--fail-if", "backlog_time > 1m", "--json")
    assert (code, json.loads(out)["not_known"]) == (3, "backlog_time")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "TARGET"),
        (["nothing"], "nothing"),
        (["./wel.rec"], "did you mean well.rec?"),
        (["well.rec", "--fail-if", "lag > 5"], "'lag'"),
        (["well.rec", "--for", "soon"], "'soon'"),
        (["well.rec", "--at", "noon"], "'noon'"),
        (["well.rec", "--fail-on", "info"], "'info'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "well.rec", HEALTHY)
    monkeypatch.chdir(tmp_path)
    code, out, err = checked(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_target_that_cannot_be_read_hides_nothing_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    well, ill = recorded(tmp_path / "well.rec", HEALTHY), recorded(tmp_path / "ill.rec", STUCK)
    monkeypatch.chdir(tmp_path)
    for targets, expected in (([well, "gone"], 2), (["gone", ill, well], 1), (["gone", "lost"], 2)):
        code, out, err = checked(capsys, *targets, "--json")
        assert code == expected
        assert len(out.splitlines()) == len(targets) - [str(one) in ("gone", "lost") for one in targets].count(True)
        assert "gone" in err.splitlines()[0]


def test_an_engine_that_says_nothing_is_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with tempfile.TemporaryDirectory(prefix="wm", dir="/tmp") as own_directory:
        monkeypatch.setenv("WMTOP_RUN_DIR", f"{own_directory}/run")
        with run_directory.claim("flights", "", 1) as claim:
            sent = replace(header(), name="flights", id=claim.run.id)
            with Publisher(claim.run.socket, sent, lambda command: Reply(command.id, ok=False, text="")):
                code, out, err = checked(capsys, "flights", "--for", "300ms", "--json")
    result = json.loads(out)
    assert (code, err, result["verdict"], result["exit"]) == (3, "", "unknown", 3)


def test_neither_textual_nor_pyspark_is_imported(tmp_path: Path) -> None:
    well = recorded(tmp_path / "well.rec", HEALTHY)
    script = (
        "import sys; from wmtop.tui import cli; sys.argv = ['wmtop', 'check', sys.argv[1]]\n"
        "try: cli.main()\n"
        "except SystemExit as over: print(over.code)\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'textual', 'pyspark', 'py4j'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(well)], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-2:] == ["0", "[]"], done.stderr


def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **targets: str) -> None:
    """A configuration with these targets, and no engine that runs."""
    lines = [line for name, rest in targets.items() for line in (f"[targets.{name}]", rest)]
    (tmp_path / "config.toml").write_text("\n".join(lines))
    monkeypatch.setenv("WMTOP_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("WMTOP_RUN_DIR", tempfile.mkdtemp(prefix="wmtop-"))  # short: it holds sockets


def test_configured_targets_are_checked_by_name_and_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "well.rec", HEALTHY)
    recorded(tmp_path / "ill.rec", STUCK)
    configured(
        tmp_path,
        monkeypatch,
        well='attach = "./well.rec"\nfail-if = "behind_fastest > 1d"',
        ill='attach = "./ill.rec"',
        gone='attach = "./gone"',
    )
    assert checked(capsys, "well")[0] == 0
    assert checked(capsys, "ill")[0] == 1
    assert checked(capsys, "gone")[0] == 3
    code, out, err = checked(capsys, "--all", "--json")
    assert err == ""
    by_name = {result["target"]: result for result in map(json.loads, out.splitlines())}
    assert code == 1
    assert {name: by_name[name]["verdict"] for name in ("well", "ill", "gone")} == {
        "well": "moving",
        "ill": "stalled",
        "gone": "unknown",
    }
    assert set(by_name["gone"]["facts"].values()) == {None}
    code, out, _ = checked(capsys, "--all")
    rows = [line.split()[0] for line in out.splitlines()]
    assert (rows[:2], rows.index("gone") < rows.index("well")) == (["TARGET", "ill"], True)


def test_looking_at_a_checkpoint_imports_neither_textual_nor_pyspark(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "orders", 7)
    script = (
        "import sys; from wmtop.tui import cli\n"
        "sys.argv = ['wmtop', 'check', sys.argv[1], '--for', '1ms', '--fail-on', 'never']\n"
        "try: cli.main()\n"
        "except SystemExit as over: print(over.code)\n"
        "heavy = {'textual', 'pyspark', 'py4j', 'pyarrow.parquet', 'pandas', 'kafka', 'prometheus_client'}\n"
        "print(sorted(name for name in sys.modules if name in heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-2:] == ["3", "[]"], done.stderr


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("command", ["check", "report", "export", "attach", "preview"])
def test_only_the_engine_of_that_name_is_looked_at(
    command: str, own: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The socket answers in both cases: only the header's id says that another run has taken it over."""
    arguments = {
        "check": ["flights", "--json", "--for", "20s"],
        "report": ["flights", "-o", str(tmp_path / "out"), "--for", "1s"],
        "export": ["flights", "--json", "--once"],
        "attach": ["flights", "--json", "--once"],
        "preview": ["flights", "--lateness", "1s", "--json"],
    }[command]
    with tempfile.TemporaryDirectory(prefix="wm", dir="/tmp") as own_directory:
        monkeypatch.setenv("WMTOP_RUN_DIR", f"{own_directory}/run")
        with run_directory.claim("flights", "", 1) as claim:
            sent = replace(header(), name="flights", id=claim.run.id if own else "another")
            with Publisher(claim.run.socket, sent, lambda command: Reply(command.id, ok=False, text="")) as publisher:
                for snapshot in HEALTHY.published:
                    publisher.publish(snapshot)
                monkeypatch.setattr(sys, "argv", ["wmtop", command, *arguments])
                try:
                    cli.main()
                    code = 0
                except SystemExit as over:
                    code = int(over.code or 0)
    out, err = capsys.readouterr()
    if own:
        assert code == 0, err
        assert command != "check" or json.loads(out)["verdict"] == "moving"
    else:
        assert re.search(r"'flights'.*'wmtop runs'", out + err)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ([], 3),  # it may be idle: a checkpoint does not show the difference
        (["--fail-on", "never"], 3),
        (["--fail-if", "state == stale"], 1),
        (["--fail-if", "state != stale"], 0),
    ],
)
def test_a_query_that_has_begun_no_batch_for_long_is_not_waited_for(tmp_path: Path, more: list[str], code: int) -> None:
    path = history(tmp_path / "orders", now_ms=time.time_ns() // 1_000_000 - 86_400_000, batches=9, every_ms=2_000)
    command = [sys.executable, "-m", "wmtop.tui.cli", "check", str(path), "--for", "1h", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code


def test_a_critical_finding_is_the_reason_beside_a_watermark_that_advances() -> None:
    """One record from tomorrow moves the watermark by a day: that it advances is no good news."""
    snapshot = HEALTHY.published[-1]
    ahead = problem("future-timestamps")
    well = CheckInput(snapshot, [], "moving", [])
    ill = replace(well, findings=[ahead])
    assert reason_of(ill) == ahead.title != reason_of(well)


def test_a_target_that_hangs_takes_at_most_a_little_longer_than_for() -> None:
    assert 30 < hangs_after_s(30_000) < 32
    assert MIN_S < hangs_after_s(0) < MIN_S + 2  # one answer may take that long


class Asked:
    """A target that answers with these verdicts, and notes after each for how long it is still read."""

    name = "asked"

    def __init__(self, *verdicts: Verdict) -> None:
        self.verdicts, self.left_s = verdicts, list[float]()

    def follow(self, name: str, pace: Pace) -> Iterator[Snapshot]:
        for verdict in self.verdicts:
            yield replace(HEALTHY.published[-1], verdict=verdict)
            assert pace.left_s is not None
            self.left_s.append(pace.left_s)


def test_without_a_limit_a_verdict_is_waited_for_as_long_as_it_takes() -> None:
    def too_short(patience: int) -> Verdict:
        return Verdict("unknown", patience_ms=patience, reason=Reason("too_short", ms=0))

    not_known = Verdict("unknown", patience_ms=5 * MINUTE, reason=Reason("not_known"))
    verdicts = (too_short(90 * SECOND), too_short(10 * SECOND), too_short(60 * MINUTE), not_known)
    asked = Asked(*verdicts)
    look = follow(asked, "check", lambda look: False, None)
    assert [round(left) for left in asked.left_s] == [92, 30, 300, 30]
    assert (look.for_ms, len(look.seen)) == (30_000, 1)
    given = Asked(*verdicts)
    follow(given, "check", lambda look: False, 7_000)
    assert {round(left) for left in given.left_s} == {7}


def test_a_last_poll_that_takes_too_long_does_not_hide_what_was_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten queries on a busy machine: none had a verdict yet, and each had its findings."""
    ended = threading.Event()

    def look_at(member: Member, decided: Callable[[Look], bool], *more: object) -> Look:
        query = replace(HEALTHY.published[-1], verdict=Verdict("unknown"), spark=SparkProgress(never_moved=True))
        assert not decided(Look(Recent(), seen=[query]))
        ended.wait(60)
        raise AssertionError("nothing waits for it")

    monkeypatch.setattr("wmtop.tui.cli.check.look_at", look_at)
    monkeypatch.setattr("wmtop.tui.cli.check.hangs_after_s", lambda for_ms: 1.0)
    monkeypatch.setattr(sys.modules[cli.main.__module__], "_a_look_hangs", lambda: False)  # it would end this process
    monkeypatch.setattr(sys, "argv", ["wmtop", "check", "orders", "clicks", "--json"])
    with pytest.raises(SystemExit) as over:
        cli.main()
    ended.set()
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert over.value.code == 1
    assert [(one["target"], one["verdict"]) for one in found] == [("orders", "unknown"), ("clicks", "unknown")]
    assert all("watermark-never-moved" in [each["code"] for each in one["findings"]] for one in found)


def test_a_store_that_never_answers_does_not_keep_check(tmp_path: Path) -> None:
    """Neither while it looks nor at the end of the process, where pyarrow would wait for the request."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"s3://lake/orders?endpoint_override=http://127.0.0.1:{silent.getsockname()[1]}&region=us-east-1"
        code = "from wmtop.tui.cli import check, main; check.LEAST_S = 0; main()"
        command = [sys.executable, "-c", code, "check", target, "--for", "1s"]
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "TMPDIR": str(tmp_path)}
        began = time.monotonic()
        done = subprocess.run(
            command, env={**os.environ, **keys}, capture_output=True, text=True, timeout=120, check=False
        )
    assert (done.returncode, NO_ANSWER in done.stdout) == (3, True), done.stderr
    assert time.monotonic() - began < 3 * REQUEST_S  # it makes three attempts
