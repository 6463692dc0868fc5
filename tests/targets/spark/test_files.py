"""Source lines of an offset log, by kind of source."""

import pytest
from wmtop.engine.targets.spark.files import (
    SourceOffsets,
    UnreadableError,
    decode_commit,
    decode_offsets,
    decode_schema,
    delay_of,
)

METADATA = b'{"batchWatermarkMs":5,"batchTimestampMs":7,"conf":{"a":"b"}}'


@pytest.mark.parametrize(
    ("line", "kind", "offsets"),
    [
        ('{"clicks":{"0":17,"10":3},"views.eu":{"2":0}}', "kafka", {"clicks/0": 17, "clicks/10": 3, "views.eu/2": 0}),
        ('{"logOffset":4}', "files", {"logOffset": 4}),
        ("42", "number", {"": 42}),
        ("-", "nothing", None),
        ("-1", "number", {"": -1}),
        ('{"offset":9,"timestamp":1700000000000}', "json", None),
        ('{"0":{"value":5,"runTimeMs":1700000000000}}', "json", None),
        ('{"clicks":{"0":true}}', "json", None),
        ('{"clicks":{"0":99999999999999999999}}', "json", None),
        ("{}", "json", None),
        ('"abc"', "json", None),
        ("true", "json", None),
        ("1.5", "json", None),
        ("{", "unreadable", None),
        ("[" * 5000, "unreadable", None),
    ],
)
def test_a_source_is_known_by_its_line(line: str, kind: str, offsets: dict[str, int] | None) -> None:
    for version, start in (("v1", ""), ("v2", "0:")):
        content = b"\n".join((version.encode(), METADATA, f"{start}{line}".encode()))
        [source] = decode_offsets(content).sources
        assert (source.source, source.kind, source.offsets) == ("0", kind, offsets)
        assert source.text == line or (source.text.endswith("…") and len(source.text) <= 200)


def test_a_newline_ends_the_last_line_and_begins_no_source() -> None:
    assert decode_offsets(b"v1\n" + METADATA + b"\n4\n") == decode_offsets(b"v1\n" + METADATA + b"\n4")
    empty = decode_offsets(b"v2\n" + METADATA + b"\nclicks:\n")
    assert [(source.source, source.kind) for source in empty.sources] == [("clicks", "unreadable")]


@pytest.mark.parametrize(("version", "chunks"), [(b"v1", b""), (b"v2", b"\0\0\0\1")])
def test_a_schema_has_one_text_or_chunks_by_its_version(version: bytes, chunks: bytes) -> None:
    column = b'{"name":"at","type":"timestamp","nullable":true,"metadata":{"spark.watermarkDelayMs":5000}}'
    row = b'{"type":"struct","fields":[' + column + b"]}"
    text = chunks + len(row).to_bytes(2, "big") + row
    schema = decode_schema(b"\0\2" + version + text + text)
    assert [(field.name, delay_of(field)) for field in (*schema.key.fields, *schema.value.fields)] == [("at", 5000)] * 2


def test_format_2_names_its_sources() -> None:
    found = decode_offsets(b"v2\n" + METADATA + b'\nclicks:{"logOffset":1}\n7:-\nwithout a colon')
    assert found.sources == (
        SourceOffsets("clicks", "files", '{"logOffset":1}', {"logOffset": 1}),
        SourceOffsets("7", "nothing", "-"),
        SourceOffsets("2", "unreadable", "without a colon"),
    )
    assert (found.timestamp_ms, found.watermark_ms, found.conf) == (7, 5, {"a": "b"})


@pytest.mark.parametrize("line", [b'7:{"orders":{"0":17}}', b'{"orders":{"0":17}}'])
def test_a_newer_format_is_read_as_far_as_it_is_known_and_says_so(line: bytes) -> None:
    found = decode_offsets(b"v3\n" + METADATA + b"\n" + line)
    assert (found.newer_format, found.timestamp_ms, found.watermark_ms) == ("v3", 7, 5)
    assert [source.offsets for source in found.sources] == [{"orders/0": 17}]
    assert decode_offsets(b"v2\n" + METADATA).newer_format is None
    assert decode_commit(b'v3\n{"nextBatchWatermarkMs":1700,"more":[]}') == 1700
    with pytest.raises(UnreadableError):
        decode_offsets(b"x1\n" + METADATA)


def test_control_characters_are_not_passed_on() -> None:
    [source] = decode_offsets(b"v1\n" + METADATA + b'\n"\x1b[2J\x00\xff"').sources
    assert source.text.isprintable()


@pytest.mark.parametrize("number", ["1e400", "99999999999999999999", '"5"', "true", "null", "1.5"])
def test_a_watermark_that_is_no_time_is_refused(number: str) -> None:
    with pytest.raises(UnreadableError):
        decode_offsets(b'v1\n{"batchTimestampMs":1,"batchWatermarkMs":' + number.encode() + b"}\n-")
    with pytest.raises(UnreadableError):
        decode_commit(b'v1\n{"nextBatchWatermarkMs":' + number.encode() + b"}")


def test_a_commit_with_state_ids_is_understood() -> None:
    assert decode_commit(b'v2\n{"nextBatchWatermarkMs":1700,"stateUniqueIds":{"0":[["a"],["b"]]}}') == 1700
    assert decode_commit(b'v1\n{"nextBatchWatermarkMs":0}') is None


def test_an_epoch_of_continuous_processing_has_no_time_and_no_watermark() -> None:
    """Its second line is empty; sources follow as in any other."""
    found = decode_offsets(b'v1\n\n{"1":{"value":-1,"runTimeMs":1795405191718}}')
    assert (found.timestamp_ms, found.watermark_ms, found.conf) == (None, None, {})
    assert [source.kind for source in found.sources] == ["json"]
