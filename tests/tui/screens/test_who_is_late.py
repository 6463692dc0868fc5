"""Who is late: reached from the lateness screen, the cause first."""

import re

from wmtop.engine.snapshot import ExplainedColumn, ExplainedValue, Totals
from wmtop.tui.words.late_records import more_values, standing_out, value_facts

from ..canned import live, reported
from ..drive import Driven, drive

COLUMNS = [
    ExplainedColumn(
        "firm[b]ware",
        [ExplainedValue("4.2", 600, 4_000, 15.0, 13.9, 16.1, True), ExplainedValue("5.0", 0, 60_000, 0.0, 0.0, 0.1)],
        late=1_000,
        records=100_000,
    ),
    ExplainedColumn(
        "device",
        [ExplainedValue("d17", 90, 900, 9.9, 8.1, 12.1)],
        approximate=True,
        other_late=3,
        late=1_000,
        records=100_000,
        other_records=7_000,
    ),
]


def test_who_is_late_shows_late_and_all_records_per_value() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l", "e")
        await it.says("4.2", "#who-is-late")
        lines = it.said("#who-is-late").splitlines()
        cause = next(number for number, line in enumerate(lines) if "4.2" in line)
        assert lines[cause - 1].strip() == "firm[b]ware"
        assert all(part in lines[cause] for part in ("600", "60.0 %", "15.0×", "▇"))
        assert all(part in lines[cause + 1] for part in ("4,000", "4.0 %"))
        assert "1 more" in lines[cause + 2]
        device = next(number for number, line in enumerate(lines) if line.strip().startswith("device"))
        assert all(part in lines[device] for part in ("≈", "7,000", "3 late"))
        assert all(part in lines[device + 1] for part in ("d17", "90", "9.9×", "(8.1–12.1)"))
        await it.press("escape")
        await it.says("recommended", "#recommended")

    drive(scenario, *reported(live(totals=Totals(records=100_000, late=1_000), explain=COLUMNS)))


def test_who_is_late_without_explain_says_how_to_get_it() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("l", "e")
        await it.says("--explain COL", "#who-is-late")

    drive(scenario, *reported(live()))


def test_who_is_late_column_without_evidence_is_short() -> None:
    """Of 12 values, none sure, three are shown; all of them match a filter."""
    values = [ExplainedValue(f"d{n:02}", 20 - n, 200, 1.0 + n / 10, 0.5, 1.8) for n in range(12)]
    columns = [ExplainedColumn("device", [*values, ExplainedValue("d99", 0, 5, 0.0)], late=200, records=2_405)]

    async def scenario(it: Driven) -> None:
        await it.press("l", "e")
        await it.says("d02", "#who-is-late")
        assert "d03" not in it.said("#who-is-late")
        found = value_facts(columns[0])
        more = more_values(found, standing_out(found))
        assert re.findall(r"\d+", more) == ["9", "1"]
        assert more in it.said("#who-is-late")
        await it.press("slash", "d", "1", "1", "enter")
        await it.says("d11", "#who-is-late")

    drive(scenario, *reported(live(totals=Totals(records=2_405, late=200), explain=columns)))
