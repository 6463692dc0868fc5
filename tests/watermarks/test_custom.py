"""A user's generator gives what the built-in strategy of the same rule gives."""

import pickle
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from wmtop.engine.watermarks.generators import CustomError, CustomGenerator, load_factory
from wmtop.engine.watermarks.settings import Settings
from wmtop.engine.watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS

from ..reference.ops import Batch, Finished, Gone, Op, Row, SetLateness
from . import scripts
from .examples import examples
from .lockstep import Driver, seen
from .steps import saved_and_read

Run = tuple[Settings, list[Op]]


def custom(of: Settings, name: str) -> Settings:
    """The same settings with a generator of ours."""
    factory = f"tests.watermarks.custom_generators:{name}"
    return msgspec.structs.replace(of, strategy="custom", lateness_ms=None, factory=factory, watermark_column=None)


def assert_same(builtin: Settings, builtin_ops: Sequence[Op], own: Settings, own_ops: Sequence[Op]) -> None:
    """Both runs do the same, ours saved and loaded after every op."""
    theirs, ours = Driver(builtin), Driver(own)
    for builtin_op, own_op in zip(builtin_ops, own_ops, strict=True):
        assert ours.apply(own_op) == theirs.apply(builtin_op)
        ours.monitor = saved_and_read(ours.monitor)
        assert {**seen(ours), "w0": None} == {**seen(theirs), "w0": None}


@examples(60)
@given(scripts.runs(["bounded"]))
def test_a_periodic_generator(run: Run) -> None:
    bounded = msgspec.structs.replace(run[0], lateness_ms=5)
    ops = [op for op in run[1] if not isinstance(op, SetLateness)]
    assert_same(bounded, ops, custom(bounded, "FiveBehind"), ops)


@examples(60)
@given(scripts.runs(["source"]))
def test_a_generator_that_speaks_at_records(run: Run) -> None:
    """What it says at each record is what the source's own watermarks are made to be."""
    of = msgspec.structs.replace(run[0], future_guard_ms=None)
    count: Counter[str | None] = Counter()
    ops: list[Op] = []
    for op in run[1]:
        if isinstance(op, Batch):
            ops.append(Batch(tuple(reported(row, count, op.own_arrival) for row in op.rows), op.now, op.own_arrival))
        else:
            ops.append(op)
        if isinstance(op, Finished | Gone):
            for name in op.names:  # its next record begins with a new generator
                count[name] = 0
    assert_same(of, ops, custom(of, "EveryOther"), run[1])


def reported(row: Row, count: Counter[str | None], own_arrival: bool) -> Row:
    if row.ts is None or not FIRST_USABLE_MS <= row.ts <= LAST_USABLE_MS or (own_arrival and row.arrival is None):
        return row
    count[row.channel] += 1
    return row._replace(extra=row.ts if count[row.channel] % 2 == 0 else None)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("no colon", ValueError),
        ("tests.watermarks.custom_generators:Missing", AttributeError),
        ("tests.watermarks.no_such_module:X", ImportError),
    ],
)
def test_a_factory_that_is_not_there(path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        load_factory(path)


@pytest.mark.parametrize("method", ["on_event", "on_periodic_emit"])
def test_an_error_of_a_generator_names_its_method_and_type(method: str) -> None:
    generator = CustomGenerator(pickle.dumps(Broken()))
    with pytest.raises(CustomError) as raised:
        generator.on_event(1) if method == "on_event" else generator.on_periodic_emit()
    assert method in str(raised.value)
    assert "ZeroDivisionError: " in str(raised.value)


class Broken:
    """A user's generator that fails."""

    def on_event(self, timestamp: int) -> int:
        return timestamp // 0

    def on_periodic_emit(self) -> int:
        return 1 // 0
