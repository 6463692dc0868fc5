"""What is said of one channel: its sentence and its facts."""

import re

from wmtop.engine.snapshot import Offender, Snapshot
from wmtop.engine.text import formatting as f
from wmtop.engine.watermarks.observation import MalformedRecord
from wmtop.tui.words.channel_facts import facts
from wmtop.tui.words.kinds import presenter_of

from tests.snapshots import replace

from .. import canned
from ..canned import HOUR, MINUTE, NOW, channel, instances, live


def with_channel(name: str, **more: object) -> Snapshot:
    """A snapshot in which that is said of the channel."""
    snapshot = live()
    views = [replace(view, **more) if view.channel == name else view for view in snapshot.channels]
    return replace(snapshot, channels=views)


def shown_of(snapshot: Snapshot, name: str) -> dict[str, str]:
    view = next(view for view in snapshot.channels if view.channel == name)
    return {what: "".join(text for text, _ in runs) for what, runs in facts(snapshot, view, None)}


def state_override(snapshot: Snapshot, name: str) -> str:
    view = next(view for view in snapshot.channels if view.channel == name)
    return "".join(text for text, _ in presenter_of(snapshot).channel_line(view))


def test_each_state_has_its_sentence() -> None:
    assert state_override(live(), "F9") == "F9 holds back the watermark for 26m: no data for 26m, no backlog."
    assert state_override(live(), "UA") == "UA is active, 43m ahead of the watermark."
    assert state_override(live(), "AS").startswith("AS is idle, no data for 1h35m: it is left out of the minimum")
    assert state_override(live(), "HA").startswith("HA was idle and is realigning: it counts again")
    assert state_override(canned.never_seen(), "1").startswith(
        "1 holds back the watermark for 26m: no record since the start"
    )
    assert state_override(canned.ended(), "UA") == "UA is finished: no more records will come."
    assert state_override(with_channel("UA", watermark_ms=None), "UA") == "UA is active, and has no watermark yet."


def test_quiet_is_set_against_the_longest_before_and_the_timeout() -> None:
    said = shown_of(with_channel("UA", quiet_ms=9 * MINUTE, longest_quiet_ms=12 * MINUTE), "UA")
    assert said["no data for"] == "9m now, longest before 12m, idle after 2h"
    assert "longest" not in shown_of(live(), "UA")["no data for"]
    assert "idle after" not in shown_of(live(), "AS")["no data for"]


def test_its_watermark_is_set_against_the_level() -> None:
    assert shown_of(live(), "F9")["watermark"].endswith("  at the watermark")
    assert shown_of(live(), "UA")["watermark"].endswith("  43m ahead of the watermark")
    assert shown_of(live(), "AS")["watermark"].endswith(" behind the watermark")
    assert shown_of(with_channel("UA", flaps=4, round_ms=HOUR), "UA")["idleness"].endswith(", lately every 1h")


def test_bad_records_are_named_where_they_are_its_own() -> None:
    bad = Offender("UA", 4_117, NOW + 3 * HOUR, "orders-3")
    snapshot = replace(
        with_channel("UA", malformed=2, future=1), last_future=bad, last_malformed=Offender("B6", 1, None)
    )
    assert shown_of(snapshot, "UA")["set aside"] == "2 malformed, 1 in the future"
    assert re.fullmatch(r"offset 4,117 of orders-3: claims 2013-02-08 .*", shown_of(snapshot, "UA")["last in future"])
    assert "last malformed" not in shown_of(snapshot, "UA")
    assert shown_of(snapshot, "B6")["last malformed"] == "offset 1: no usable time"


def test_a_malformed_record_is_shown_where_it_is_its_own() -> None:
    example = MalformedRecord("UA", "row 8 of a.csv", "ts", "never", "no_time")
    snapshot = replace(with_channel("UA", malformed=2), malformed_example=example)
    assert shown_of(snapshot, "UA")["malformed, e.g."] == 'UA, row 8 of a.csv: ts "never" is not a time'
    assert "malformed, e.g." not in shown_of(snapshot, "B6")
    said = [
        f.malformed(MalformedRecord("UA", "row 8 of a.csv", "ts", value, why))
        for value, why in ((None, "missing"), ("x\x1b[1m" * 20, "not_json"), ("1e30", "out_of_range"))
    ]
    assert said[0] == "UA, row 8 of a.csv: no ts"
    assert said[1].endswith("… is not JSON")
    assert "\x1b" not in said[1]
    assert said[2].endswith('ts "1e30" is not within the years 1 to 9999')


def test_windows_and_instance_are_there_only_where_they_are_known() -> None:
    assert "150" in shown_of(live(), "F9")["open windows"]
    assert "open windows" not in shown_of(live(), "YV")
    assert "source instance" not in shown_of(live(), "F9")
    assert shown_of(instances(), "B6")["source instance"] == "#1"


def test_what_is_not_known_is_said() -> None:
    view = channel("3", 0, records=None, late=None, behind_watermark=None, malformed=None, future=None, backlog=None,
                   quiet_ms=None, rate=None, max_event_ms=None)  # fmt: skip
    said = shown_of(live([view]), "3")
    assert said["records"] == said["late"] == said["no data for"] == "not known from here"
    assert (said["backlog"], said["newest record"]) == ("–", "–")
    assert said["set aside"] == "– malformed, – in the future"
