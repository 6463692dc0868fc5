"""Order-dependent strategies: each channel's generator gets a batch's records in source order."""

import pickle
from typing import TYPE_CHECKING, Any

from ..core.monitor import Monitor
from ..core.observation import Sequence
from ..core.watermarks import CustomGenerator, new_generator
from .arrow_map import apply_in_arrow
from .sources.base import CHANNEL, OFFSET, TIME

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def sequences_of(batch: "DataFrame", monitor: Monitor) -> list[Sequence]:
    """One `Sequence` for each channel with records that reach its generator (`smoothed`, `custom`)."""
    # Without offsets, the order is that in which Spark reads.
    usable = batch.where(f"{TIME} is not null and not is_future").selectExpr(
        CHANNEL, f"coalesce({OFFSET}, monotonically_increasing_id()) as position", TIME
    )
    return _last_timestamps(usable, monitor) if monitor.settings.strategy == "smoothed" else _replayed(usable, monitor)


def _last_timestamps(usable: "DataFrame", monitor: Monitor) -> list[Sequence]:
    """The last N timestamps of each channel, as native expressions: Spark keeps only the top N while it sorts."""
    from pyspark.sql import functions as F

    ranked = usable.selectExpr(
        "*", f"row_number() over (partition by {CHANNEL} order by position desc) as number"
    ).where(f"number <= {monitor.settings.smooth}")
    last = ranked.groupBy(CHANNEL).agg(
        F.expr(f"transform(sort_array(collect_list(struct(position, {TIME}))), pair -> pair.{TIME}) as timestamps")
    )
    return [Sequence(row[CHANNEL], timestamps=row["timestamps"]) for row in last.toArrow().to_pylist()]


def _replayed(usable: "DataFrame", monitor: Monitor) -> list[Sequence]:
    """The sequences of a user's generator, which needs every record: it runs where the records are, over Arrow, a
    channel per call.
    """
    fresh = new_generator(monitor.settings)
    assert isinstance(fresh, CustomGenerator)
    states = {
        name: generator.state
        for name, generator in monitor.generators().items()
        if isinstance(generator, CustomGenerator)
    }
    runner, schema = _runner(states, fresh.state), f"{CHANNEL} string, state binary, emitted_ms bigint"
    rows = apply_in_arrow(usable, CHANNEL, runner, schema)
    return [
        Sequence(row[CHANNEL], state=row["state"], emitted_ms=row["emitted_ms"]) for row in rows.toArrow().to_pylist()
    ]


def _runner(states: dict[str, bytes], fresh: bytes) -> Any:
    def run(records: "pa.Table") -> "pa.Table":
        import pyarrow as pa

        channel = records[CHANNEL][0].as_py()
        generator = pickle.loads(states.get(channel, fresh))
        emitted: int | None = None
        in_order: list[int] = records.sort_by("position")[TIME].to_pylist()  # pyright: ignore
        for timestamp in in_order:
            try:
                sent = generator.on_event(timestamp)
            except Exception as error:  # a message alone may be one word; workers may be without our modules
                text = " ".join(f"{type(error).__name__}: {error}".split())
                raise RuntimeError(f"the strategy's on_event raised {text}") from error
            if sent is not None and (emitted is None or sent > emitted):
                emitted = sent
        return pa.table(
            {CHANNEL: [channel], "state": [pickle.dumps(generator)], "emitted_ms": [emitted]},
            schema=pa.schema([(CHANNEL, pa.string()), ("state", pa.binary()), ("emitted_ms", pa.int64())]),
        )

    return run
