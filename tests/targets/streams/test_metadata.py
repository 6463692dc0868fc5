"""What Kafka Streams writes into a group: bytes that its releases wrote, and anything else."""

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wmtop.engine.kafka.cluster import TopicPartition
from wmtop.engine.targets.streams.clocks import CommittedTime, assigned_tasks, decode_metadata, decode_tasks

MEASURED = {
    "AgAAAYvP5dlI": CommittedTime(1_700_000_029_000),
    "AgAAAYvP5ZrIAAAAAQAAAAZjb3VudHMAAAGLz+WS+A==": CommittedTime(1_700_000_013_000, {"counts": 1_700_000_011_000}),
}
"""Metadata that Kafka Streams 4.1.0 committed."""
NOT_STREAMS = (
    None,
    "",
    "offset of job 17",
    "AgAAAYvP5dlI=",  # more padding than it needs
    "AgAAAYvP5dlI\n",
    "AgAAAYvP5dlIAA==",  # a byte too many
    "AgAAAYvP5dk=",  # a byte too few
    "AwAAAYvP5dlI",  # a version that no release wrote
    "AgAAAYvP5ZrIAAAAAgAAAAZjb3VudHMAAAGLz+WS+A==",  # two entries announced, one there
    "Aé",
)
TIMES = st.integers(0, 2**63 - 1)


def written(version: int, time_ms: int, stores: dict[str, int]) -> str:
    """The metadata as Streams' own encoder writes it."""
    data = struct.pack(">bq", version, time_ms)
    if stores:
        data += struct.pack(">i", len(stores))
    for store, closed_ms in stores.items():
        name = store.encode()
        data += struct.pack(">i", len(name)) + name + struct.pack(">q", closed_ms)
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("text", MEASURED)
def test_metadata_of_a_release_is_decoded(text: str) -> None:
    assert decode_metadata(text) == MEASURED[text]


@pytest.mark.parametrize("text", NOT_STREAMS)
def test_other_metadata_is_not_of_streams(text: str | None) -> None:
    assert decode_metadata(text) is None


def test_a_partition_that_was_never_read_has_no_time() -> None:
    assert decode_metadata(written(2, -1, {"counts": -2_000})) == CommittedTime(None, {"counts": -2_000})
    assert decode_metadata(written(1, -1, {})) == CommittedTime(None)
    assert decode_metadata(written(2, -2, {})) is None


@given(st.sampled_from((1, 2)), TIMES, st.dictionaries(st.text(max_size=20), st.integers(-(2**63), 2**63 - 1)))
def test_what_is_written_is_read(version: int, time_ms: int, stores: dict[str, int]) -> None:
    stores = stores if version == 2 else {}
    assert decode_metadata(written(version, time_ms, stores)) == CommittedTime(time_ms, stores)


@given(TIMES, st.dictionaries(st.text(max_size=8), TIMES, min_size=1, max_size=3), st.data())
def test_cut_or_longer_metadata_is_not_of_streams(time_ms: int, stores: dict[str, int], data: st.DataObject) -> None:
    whole = base64.b64decode(written(2, time_ms, stores))
    length = data.draw(st.integers(10, len(whole) + 3).filter(lambda length: length != len(whole)))
    assert decode_metadata(base64.b64encode((whole + b"abc")[:length]).decode()) is None


@given(st.one_of(st.text(), st.binary().map(lambda data: base64.b64encode(data).decode()), st.binary(max_size=40).map(
    lambda data: base64.b64encode(b"\2" + data).decode())))  # fmt: skip
def test_arbitrary_metadata_raises_nothing_and_is_what_streams_would_write(text: str) -> None:
    found = decode_metadata(text)
    if found is not None:
        time_ms = -1 if found.time_ms is None else found.time_ms
        version = base64.b64decode(text)[0]
        assert text in (
            written(version, time_ms, found.closed_to_ms),
            base64.b64encode(struct.pack(">bqi", version, time_ms, 0)).decode(),
        )


def user_data(version: int, tasks: list[tuple[int, int]], after: bytes = b"") -> bytes:
    """The user data of an assignment, as far as its tasks."""
    data = struct.pack(">iii", version, 11, len(tasks))
    for part, number in tasks:
        data += struct.pack(">ii", part, number) + (struct.pack(">i", 0) if version >= 10 else b"")
    return data + after


def assignment(partitions: dict[str, list[int]], data: bytes) -> bytes:
    """A member's assignment in the consumer protocol, version 1."""
    out = struct.pack(">hi", 1, len(partitions))
    for topic, numbers in partitions.items():
        out += (
            struct.pack(">h", len(topic)) + topic.encode() + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        )
    return out + struct.pack(">i", len(data)) + data


@pytest.mark.parametrize("version", [3, 9, 10, 11])
def test_partitions_of_a_member_get_their_tasks_in_order_of_topic_and_number(version: int) -> None:
    raw = assignment(
        {"in2": [0], "app-x-repartition": [0], "in": [1, 0]},
        user_data(version, [(1, 0), (0, 0), (0, 1), (0, 0)], b"standby tasks, hosts"),
    )
    assert assigned_tasks(raw) == {
        TopicPartition("app-x-repartition", 0): (1, 0),
        TopicPartition("in", 0): (0, 0),
        TopicPartition("in", 1): (0, 1),
        TopicPartition("in2", 0): (0, 0),
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"sticky assignor",
        user_data(2, [(0, 0)]),
        user_data(12, [(0, 0)]),
        user_data(11, [(0, 0), (0, 1)]),  # more tasks than partitions
        user_data(11, [(0, 7)]),  # another partition's task
        struct.pack(">iiiiii", 11, 11, 1, 0, 0, 3) + b"top",  # a task of a named topology
    ],
)
def test_another_user_data_gives_no_tasks(data: bytes) -> None:
    assert assigned_tasks(assignment({"in": [0]}, data)) == {}


@pytest.mark.parametrize("others", [{}, {"in": [0]}])
def test_a_topic_without_a_name_gives_no_tasks(others: dict[str, list[int]]) -> None:
    named = assignment({"topic": [0], **others}, user_data(11, [(0, 0)] * (1 + len(others))))
    nameless = named.replace(struct.pack(">h", 5) + b"topic", struct.pack(">h", -1))
    assert assigned_tasks(named)
    assert assigned_tasks(nameless) == {}


@given(st.binary())
def test_arbitrary_assignments_raise_nothing(data: bytes) -> None:
    decode_tasks(data)
    assigned_tasks(data)
    assigned_tasks(assignment({"in": [0]}, data))
