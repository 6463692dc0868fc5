"""The encoded snapshot is the `--json` of the command line: the names that scripts rely on."""

from typing import Any

import msgspec
import pytest
from wmtop.engine.feed.messages import encode
from wmtop.engine.snapshot import Offender
from wmtop.engine.watermarks.observation import BatchObservation
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, Tumbling, WindowSpec

from ..reference.ops import End
from .lockstep import Driver
from .steps import batch

NAMES = {
    "": "version name state batch now_ms ended settings level channels windows totals whatif whatif_idle spark",
    "settings": "strategy lateness_ms idle_after_ms allowed_lateness_ms future_guard_ms emit_every_ms subtasks window"
    " version",
    "level": "watermark_ms behind_fastest_ms behind_clock_ms holder",
    "level.holder": "channel since_ms cause",
    "channels.0": "channel watermark_ms max_event_ms state records behind_watermark late malformed future backlog"
    " quiet_ms flaps rate",
    "windows": "open fired late_firings",
    "windows.open.0": "start_ms end_ms records waits_for short_ms",
    "totals": "records behind_watermark late malformed future no_window",
    "whatif.0": "lateness_ms late late_share delay_ms",
    "whatif_idle.0": "idle_after_ms watermark_ms holder flaps late",
    "spark": "input_rows_per_second processed_rows_per_second batch_ms phases_ms watermark_ms dropped_at_least",
}


def as_json(driver: Driver) -> dict[str, Any]:
    """What a script reads."""
    return msgspec.json.decode(encode(driver.snapshot()))


@pytest.mark.parametrize("path", NAMES)
def test_the_names_of_the_contract(path: str) -> None:
    driver = Driver(Settings(lateness_ms=0, window=Tumbling(10)))
    driver.apply(batch(1, ("a", 5), ("b", 50)))
    at: Any = as_json(driver)
    for step in path.split(".") if path else []:
        at = at[int(step)] if step.isdigit() else at[step]
    assert set(NAMES[path].split()) <= set(at)


@pytest.mark.parametrize(
    ("window", "encoded"),
    [
        (Sliding(10, 5, 1), {"type": "sliding", "size_ms": 10, "slide_ms": 5, "offset_ms": 1}),
        (Session(7), {"type": "session", "gap_ms": 7}),
    ],
)
def test_windows_are_encoded_with_their_type(window: WindowSpec, encoded: dict[str, Any]) -> None:
    assert as_json(Driver(Settings(window=window)))["settings"]["window"] == encoded


def test_what_is_not_known_is_null_never_a_sentinel() -> None:
    driver = Driver(Settings())
    before = as_json(driver)
    assert before["level"]["watermark_ms"] is None
    driver.apply(batch(1, ("a", 5)))
    driver.apply(End(2))
    text = encode(driver.snapshot()).decode()
    assert "9223372036854775" not in text
    assert as_json(driver)["ended"] is True


def test_a_firing_is_a_line_of_the_firings_file() -> None:
    driver = Driver(Settings(lateness_ms=0, window=Tumbling(10)))
    driver.apply(batch(1, ("a", 5)))
    assert driver.apply(End(2)) == [
        {"kind": "fire", "batch": 0, "channel": None, "start_ms": 0, "end_ms": 10, "records": 1, "firings": 1,
         "watermark_ms": None, "ended": True}
    ]  # fmt: skip


def test_the_open_windows_that_close_next_are_listed_and_all_are_counted() -> None:
    driver = Driver(Settings(strategy="none", window=Tumbling(10)))
    driver.apply(batch(1, *(("a", 10 * number) for number in range(250, 0, -1))))
    windows = driver.snapshot().windows
    assert windows.open_count == 250
    assert [window.start_ms for window in windows.open[:2]] == [10, 20]


def test_the_windows_that_close_next_have_their_channels() -> None:
    driver = Driver(Settings(strategy="none", window=Tumbling(10)))
    driver.apply(batch(1, *((f"c{c}", 10 * w) for w in range(25) for c in range(12) for _ in range(c + 1))))
    first, last = driver.snapshot().windows.open[0], driver.snapshot().windows.open[-1]
    assert [(part.channel, part.records) for part in first.channels or ()][:2] == [("c11", 12), ("c10", 11)]
    assert (len(first.channels or ()), first.channel_count) == (8, 12)
    assert (last.channels, last.channel_count) == (None, None)


def test_the_lateness_of_a_channel_is_a_histogram_over_the_edges_of_the_what_if() -> None:
    driver = Driver(Settings(lateness_ms=2, window=Tumbling(10)))
    driver.apply(batch(1, ("a", 100), ("b", 100)))
    driver.apply(batch(2, ("a", 97), ("a", 98), ("a", 98), ("a", 90), ("a", 120)))
    whatif, parts = driver.snapshot().whatif or [], driver.snapshot().lateness_by_channel
    assert [(part.channel, part.records) for part in parts] == [("a", 6)]
    found = {row.lateness_ms: n for row, n in zip(whatif, parts[0].behind, strict=False) if n}
    assert found == {1: 2, 2: 1, 7: 1}  # W0 is 99


def test_json_has_no_control_character_that_a_terminal_obeys() -> None:
    name = "\x1b]0;x\x07\x9b\x80é·"
    driver = Driver(Settings())
    driver.apply(batch(1, (name, 5)))
    assert not {letter for letter in encode(driver.snapshot()).decode() if letter < " " or "\x7f" <= letter < "\xa0"}
    assert as_json(driver)["channels"][0]["channel"] == name


def test_the_longest_quiet_time_is_between_two_records() -> None:
    driver = Driver(Settings(window=Tumbling(10)))
    for now, names in ((100, "ab"), (140, "a"), (150, "a"), (200, "b")):
        driver.apply(batch(now, *((name, 5) for name in names)))
    assert [channel.longest_quiet_ms for channel in driver.snapshot().channels] == [40, 100]


def test_the_last_offenders_are_named() -> None:
    driver = Driver(Settings())
    future, malformed = Offender("a", 7, 99_999), Offender("b", 8, None)
    driver.monitor.apply(BatchObservation(batch=0, now_ms=1, groups=[], last_future=future, last_malformed=malformed))
    driver.monitor.apply(BatchObservation(batch=1, now_ms=2, groups=[]))
    snapshot = driver.snapshot()
    assert (snapshot.last_future, snapshot.last_malformed) == (future, malformed)


def test_quiet_is_the_time_since_the_last_record() -> None:
    driver = Driver(Settings(window=Tumbling(10)))
    driver.apply(batch(100, ("a", 5), ("b", 5)))
    driver.apply(batch(140, ("a", 5)))
    assert [channel.quiet_ms for channel in driver.snapshot().channels] == [0, 40]
