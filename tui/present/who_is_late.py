"""Late records by the values of the `--explain` columns, in words and cells. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from ...engine.core.snapshot import ExplainedColumn, ExplainedValue, Snapshot
from . import formatting as f
from .line import Run, clip
from .target import target_of

_NAME = (8, 28)
_NUMBERS = 34
_LEAST_BAR = 8
_OTHERS, _OTHERS_ALONE = 5, 3
"""How many values that are not late more often are shown: below one that is, and if there is none."""


class ValueFacts(Struct, frozen=True):
    """A value with its shares of the late records and of all (0 to 1; None: no late records)."""

    value: ExplainedValue
    of_late: float | None
    of_all: float | None
    approximate: bool


def value_facts(column: ExplainedColumn) -> list[ValueFacts]:
    """The values of a column, the surest first."""
    late, records = column.late, column.records
    return [
        ValueFacts(
            value, value.late / late if late else None, value.records / records if records else None, column.approximate
        )
        for value in column.values
    ]


def standing_out(found: Sequence[ValueFacts]) -> list[ValueFacts]:
    """The values that are late more often beyond chance, and a few others; all if there are few."""
    others = [facts for facts in found if not facts.value.sure]
    hidden = others[_OTHERS if len(others) < len(found) else _OTHERS_ALONE :]
    return [facts for facts in found if facts not in hidden]


def more_values(found: Sequence[ValueFacts], shown: Sequence[ValueFacts]) -> str:
    """The number of hidden values: none of them is late more often than others beyond chance."""
    hidden = [facts for facts in found if facts not in shown or not facts.value.late]
    late = sum(bool(facts.value.late) for facts in hidden)
    without = len(hidden) - late
    parts = [f"{late} more, none late more often beyond chance (/ shows them)"] if late else []
    return " · ".join([*parts, f"{without} more without late records"] if without else parts)


def nothing_explained(snapshot: Snapshot) -> str:
    """Why there are no values."""
    if target_of(snapshot).is_attached:
        return "Which values late records have is known of runs with --explain COL,… only; replay the data in one"
    return "Start the engine with --explain COL,… (up to ten columns) to see which values late records have"


def column_line(column: ExplainedColumn, width: int) -> list[Run]:
    """A column's name, and the limits of its counts."""
    bounded = ""
    if column.approximate:
        bounded = f"  ≈ too many values: others have {f.count(column.other_records)} records, "
        bounded += f"{f.count(column.other_late)} late"
    return clip([(f" {f.clean(column.column)}", "strong"), (bounded, "dim")], width)


def late_line(facts: ValueFacts, width: int) -> list[Run]:
    """A value among the late records."""
    value = facts.value
    ink = "stale" if value.sure else "text"
    name = f.pad(f.label(value.value, _name(width)), _name(width))
    numbers = f"  late {f.pad(f.count(value.late), 9, right=True)} {f.pad(_share(facts.of_late), 7, right=True)}  "
    return clip(
        [(f" {name}", "strong"), (numbers, "text"), *_bar(facts.of_late, width, ink), (_lift(value), ink)], width
    )


def late_cells(facts: ValueFacts) -> tuple[str, ...]:
    """The same as cells: the value, its late and all records with their shares, and the lift."""
    value, about = facts.value, "≈" if facts.approximate else ""
    late, every = f"{f.count(value.late)}, {_share(facts.of_late)}", f"{f.count(value.records)}, {_share(facts.of_all)}"
    return f.label(value.value), late, about + every, _lift(value)


def _lift(value: ExplainedValue) -> str:
    lift = "" if value.lift is None else f"{value.lift:.1f}×"
    return lift if value.low is None or value.high is None else f"{lift} ({value.low:.1f}–{value.high:.1f})"


def all_line(facts: ValueFacts, width: int) -> list[Run]:
    """The same value among all records."""
    about = "≈" if facts.approximate else " "
    count = f.pad(about + f.count(facts.value.records), 10, right=True)
    numbers = f"  all {count} {f.pad(_share(facts.of_all), 7, right=True)}  "
    return clip([(" " * (_name(width) + 1), "text"), (numbers, "dim"), *_bar(facts.of_all, width, "dim")], width)


def legend() -> Sequence[Run]:
    """The meaning of the bars."""
    return [("▇", "stale"), (" of the late records  ", "dim"), ("▇", "dim"), (" of all", "dim")]


def _share(share: float | None) -> str:
    return f.UNKNOWN if share is None else f.share(share)


def _name(width: int) -> int:
    return max(_NAME[0], min(_NAME[1], width - _NUMBERS - _LEAST_BAR - 20))


def _bar(share: float | None, width: int, ink: str) -> list[Run]:
    cells = width - _name(width) - _NUMBERS - 18
    if cells < _LEAST_BAR:
        return []
    full = round(min(share or 0, 1) * cells)
    return [(f.pad("▇" * max(full, 1 if share else 0), cells + 1), ink)]
