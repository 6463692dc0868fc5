"""Where event time is in a Kafka record, by real plans of Spark 4.3 (attributes renumbered)."""

import pytest
from wmtop.engine.targets.spark.plan import record_time
from wmtop.engine.targets.topic import RECORD

KAFKA = (
    "MicroBatchScan[key#7, value#8, topic#9, partition#10, offset#11L, timestamp#12, timestampType#13] "
    "class org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaScan"
)
META = "StructField(meta,StructType(StructField(at,StringType,true)),true)"
PARSED = f"from_json({META}, cast(value#8 as string), Some(UTC), false)"


@pytest.mark.parametrize(
    ("column", "above", "place"),
    [
        ("timestamp#12", ["WholeStageCodegen (1)", "Project [timestamp#12]", "InputAdapter"], RECORD),
        ("timestamp#12", ["Filter isnotnull(timestamp#12)"], RECORD),
        ("ts#87", ["Project [timestamp#12 AS ts#87, topic#9]"], RECORD),
        ("at#15", [f"Project [cast({PARSED}.meta.at as timestamp) AS at#15]"], "$.meta.at"),
        ("timestamp#64", [f"Project [{PARSED}.timestamp AS timestamp#64]"], "$.timestamp"),
        ("at#1", [f"Project [timestamp_millis({PARSED}.ms) AS at#1]"], "$.ms"),
        ("at#1", [f"Project [cast((cast({PARSED}.ms as double) / 1000.0) as timestamp) AS at#1]"], "$.ms"),
        ("e#1", ["Project [cast(j#2.meta.at as timestamp) AS e#1, j#2.k AS k#3]", "InputAdapter",
                 f"Project [{PARSED} AS j#2]"], "$.meta.at"),
        ("at#1", ["Project [timestamp_millis(cast(get_json_object(cast(value#8 as string), $.ms) as bigint)) AS at#1]"],
         "$.ms"),
        # Not proved: a zone that a text may lack, another format, arithmetic, another column, several inputs.
        ("at#1", ["Project [cast(get_json_object(cast(value#8 as string), $.at) as timestamp) AS at#1]"], None),
        ("at#1", [f"Project [cast({PARSED.replace('UTC', 'Asia/Tokyo')}.at as timestamp) AS at#1]"], None),
        ("at#1", [f"Project [gettimestamp({PARSED}.at, dd/MM/yyyy, TimestampType, Some(UTC), true) AS at#1]"], None),
        ("at#1", ["Project [timestamp#12 + INTERVAL '01' HOUR AS at#1]"], None),
        ("at#1", [f"Project [greatest(cast({PARSED}.a as timestamp), timestamp#12) AS at#1]"], None),
        ("at#1", [f"Project [cast({PARSED.replace('value#8', 'key#7')}.a as timestamp) AS at#1]"], None),
        ("at#1", ["Project [timestamp#12 AS at#12]"], None),
        ("at#1", ["Union", "Project [timestamp#12 AS at#1]"], None),
    ],
)  # fmt: skip
def test_the_place_of_event_time(column: str, above: list[str], place: str | None) -> None:
    assert record_time(column, [*above, KAFKA]) == place


def test_another_source_has_no_records() -> None:
    assert record_time("ts#1", ["Project [ts#1]", "FileScan json [ts#1] Batched: false"]) is None
