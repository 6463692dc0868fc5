"""A plug-in, the one of docs/plugins.md, in processes of its own: attached, checked, exported, and broken."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from wmtop.engine.feed.redaction import Redaction
from wmtop.engine.snapshot import Other, OtherFact, SourceView
from wmtop.engine.targets.evidence import evidence_of_channels
from wmtop.engine.targets.plugin import snapshot_of_channels
from wmtop.engine.text.formatting import UNKNOWN
from wmtop.engine.verdict.evidence import Picture
from wmtop.engine.verdict.target_history import TargetHistory
from wmtop.tui.words.check import parse_fail_if
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.kinds.plugin import fact_text

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"
MINUTE, HOUR = 60_000, 3_600_000
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


@pytest.fixture
def site() -> Iterator[Path]:
    """The page's package, as an installer leaves it."""
    place = Path(tempfile.mkdtemp(prefix="wm", dir="/tmp"))  # sockets need short paths
    blocks = dict(BLOCK.findall(PAGE.read_text()))
    entries = tomllib.loads(blocks["toml"])["project"]["entry-points"]["wmtop.targets"]
    (place / "wmtop_gauges.py").write_text(blocks["python"])
    about = place / "wmtop_gauges-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: wmtop-gauges\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (about / "entry_points.txt").write_text(f"[wmtop.targets]\n{lines}")
    yield place
    shutil.rmtree(place)


@pytest.fixture
def gauges(site: Path) -> str:
    """The address of a file in which one channel is two hours behind the other."""
    now_ms = time.time_ns() // 1_000_000
    (site / "orders.json").write_text(json.dumps({"a": now_ms - MINUTE, "b": now_ms - 2 * HOUR - MINUTE}))
    return f"gauges://{site}/orders.json"


def started(site: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "wmtop.tui.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=site,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]),
            "WMTOP_RUN_DIR": str(site / "r"),
            "WMTOP_CONFIG": "",
        },
    )


def wmtop(site: Path, *arguments: str) -> tuple[int, str, str]:
    process = started(site, *arguments)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_a_target_of_a_plugin_attaches_with_its_facts(site: Path, gauges: str) -> None:
    code, out, err = wmtop(site, "attach", gauges, "--once", "--json")
    assert code == 0, err
    seen = json.loads(out)
    assert seen["other"] == {
        "kind": "gauges",
        "facts": [{"name": "gauges", "value": 2, "unit": ""}, {"name": "spread", "value": 2 * HOUR, "unit": "ms"}],
    }
    assert (seen["name"], seen["source"]["kind"]) == ("orders-json", "gauges")
    assert (seen["level"]["holder"]["channel"], seen["level"]["behind_fastest_ms"]) == ("b", 2 * HOUR)


def test_check_knows_the_facts_of_a_plugin(site: Path, gauges: str) -> None:
    code, out, err = wmtop(site, "check", gauges, "--json", "--for", "1s", "--fail-if", "gauges.spread > 1h")
    assert code == 1, err
    checked = json.loads(out)
    assert checked["facts"]["gauges.spread"] == 2 * HOUR
    assert "gauges.spread is 2h" in checked["met"]
    assert checked["held_back_by"] == "b"


def test_a_fact_of_a_plugin_that_is_not_installed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'gauges\.spread' is not a fact"):
        parse_fail_if("gauges.spread > 1h")
    assert parse_fail_if("gauges.spread > 1h", ["gauges"])


@pytest.fixture
def exporter(site: Path, gauges: str) -> Iterator["subprocess.Popen[str]"]:
    process = started(site, "export", gauges, "--prometheus", ":0")
    yield process
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)


def test_metrics_have_the_facts_of_a_plugin(exporter: "subprocess.Popen[str]") -> None:
    assert exporter.stderr is not None
    url = exporter.stderr.readline().split()[-1]
    text = ""
    deadline = time.monotonic() + 30
    while 'fact="gauges.spread"' not in text:
        assert time.monotonic() < deadline, text
        time.sleep(0.1)
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
    assert re.search(r'wmtop_other_fact\{fact="gauges.spread",target="gauges://.*"\} 7.2e\+06', text)


def test_attach_lists_the_plugin(site: Path) -> None:
    code, out, _ = wmtop(site, "attach")
    assert code == 0
    assert "plug-in wmtop_gauges:GaugesTarget: wmtop attach gauges://…" in out.splitlines()


def test_an_option_that_the_plugin_does_not_know_is_refused(site: Path, gauges: str) -> None:
    code, _, err = wmtop(site, "attach", gauges, "--once", "--group", "g")
    assert (code, err) == (2, "wmtop: --group has no effect for gauges://; leave it out\n")


@pytest.mark.parametrize("command", ["attach", "check"])
@pytest.mark.parametrize("part", ["import json", "return json.loads", "spread_ms ="])
def test_a_broken_plugin_is_one_line_that_names_it(command: str, part: str, site: Path, gauges: str) -> None:
    module = site / "wmtop_gauges.py"
    module.write_text(module.read_text().replace(part, f"raise KeyError('x'); {part}"))
    code, out, err = wmtop(site, command, gauges, *(["--once"] if command == "attach" else ["--for", "1s"]))
    said = err if command == "attach" else out
    assert code == {"attach": 1, "check": 3}[command]
    assert "Traceback" not in out + err
    assert "the plug-in wmtop_gauges:GaugesTarget for gauges:// failed: KeyError: 'x'" in said


def test_a_scheme_without_a_plugin_is_that_of_a_store(site: Path) -> None:
    code, _, err = wmtop(site, "attach", "nothing://x/y", "--once")
    assert code == 2
    assert "nothing" in err


def test_the_screen_shows_the_facts_with_their_units() -> None:
    facts = [OtherFact("spread", 2 * HOUR, "ms"), OtherFact("lag", 12, "records"), OtherFact("leader", None)]
    snapshot = snapshot_of_channels(
        "x", SourceView("gauges", "orders"), {"a": 5}, 10, other=Other("gauges", [*facts, OtherFact("zone", "north")])
    )
    assert [fact_text(fact) for fact in facts] == ["2h", "12 records", UNKNOWN]
    words = "".join(text for part in presenter_of(snapshot).tuning(None, None) for text, _ in part.spans)
    assert "spread 2h" in words
    assert "zone north" in words


def test_a_redacted_recording_has_only_the_numbers_of_a_plugin() -> None:
    other = Other("gauges", [OtherFact("spread", 7, "ms"), OtherFact("zone", "north")])
    snapshot = snapshot_of_channels("x", SourceView("gauges", "orders"), {"a": 5}, 10, other=other)
    hidden = Redaction().snapshot(snapshot).target
    fact = OtherFact("redacted", 7, "redacted")
    assert hidden == Other("redacted", [fact, OtherFact("redacted", "redacted", "redacted")])


def test_the_slowest_channel_holds_back_the_watermark_step_by_step() -> None:
    source = SourceView("gauges", "orders")
    first = snapshot_of_channels("x", source, {"a": 50, "b": 20, "c": 20, "d": 30}, 100)
    assert (first.level.watermark_ms, first.level.behind_fastest_ms) == (20, 30)
    assert first.level.holder is not None
    assert first.level.holder.channel == "b"
    assert [(step.channels, step.gain_ms) for step in first.blockers or ()] == [(["b", "c"], 10), (["d"], 30)]
    later = snapshot_of_channels("x", source, {"a": 60, "b": 20, "c": 20, "d": 30}, 200, first)
    assert [view.since_ms for view in later.channels] == [200, None, None, None]
    assert later.level.holder == first.level.holder
    assert later.level.moved_ms is None
    empty = snapshot_of_channels("x", source, {"a": 60, "b": None}, 200, replace(first))
    assert (empty.level.watermark_ms, empty.level.holder and empty.level.holder.cause) == (None, "no_watermark")


def test_a_watermark_at_the_first_look_was_not_seen_to_move() -> None:
    """It may have been frozen for days: it proves no advance, and its age is a lower bound."""
    source = SourceView("gauges", "orders")
    history = TargetHistory()
    before = None
    for now_ms in (1_000_000, 1_010_000):
        before = snapshot_of_channels("x", source, {"a": 50, "b": 20}, now_ms, before)
        found = history.judge(Picture(before, evidence_of_channels(before))).verdict
        assert (found.verdict, found.age_at_least) == ("unknown", True)


def test_the_page_names_every_method_of_the_protocol() -> None:
    from wmtop.engine.targets.target import Target

    page = PAGE.read_text()
    methods: list[Any] = [name for name in vars(Target) if not name.startswith("_")]
    assert [name for name in methods if f"`{name}" not in page] == []
