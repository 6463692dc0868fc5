"""Files that were cut or changed anywhere: each decoder gives an answer or its own error, nothing else."""

import struct
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from wmtop.engine.targets.spark.checkpoint import CheckpointTap
from wmtop.engine.targets.spark.files import (
    UnreadableError,
    decode_commit,
    decode_offsets,
    decode_operator,
    decode_query_id,
    decode_schema,
)
from wmtop.engine.targets.spark.open_windows import OpenWindowsTap
from wmtop.engine.targets.spark.state_files import changes, decompress

from .written import Written

LIMIT = 1 << 20
DECODERS: dict[str, tuple[Callable[[bytes], object], str]] = {
    "offsets": (decode_offsets, "several/offsets/0"),
    "commit": (decode_commit, "several/commits/0"),
    "query id": (decode_query_id, "several/metadata"),
    "operator": (decode_operator, "several/state/0/_metadata/metadata"),
    "schema": (decode_schema, "several/state/0/0/_metadata/schema"),
    "lz4": (lambda content: decompress(content, LIMIT), "several/state/0/0/2.delta"),
    "zstd": (lambda content: decompress(content, LIMIT), "types/state/0/0/2.delta"),
    "rows": (lambda content: list(changes(content, False)), "several/state/0/0/2.delta"),
    "rows with checksums": (lambda content: list(changes(content, True)), "checksummed/state/0/0/2.delta"),
}
quickly = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def damage(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with a few bytes changed, put in or taken out, or cut."""
    damaged = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(damaged)))
        piece = draw(st.sampled_from((b"", b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\xff" * 8)) | st.binary(max_size=12))
        damaged[at : at + draw(st.integers(0, 12))] = piece
    return bytes(damaged[: draw(st.integers(0, len(damaged)))] if draw(st.booleans()) else damaged)


@pytest.mark.parametrize("kind", DECODERS)
@quickly
@given(data=st.data())
def test_damage_is_refused_in_one_way_only(written: dict[str, Written], kind: str, data: st.DataObject) -> None:
    decode, _ = DECODERS[kind]
    whole = content_of(written, kind)
    decode(whole)
    assert refusal(decode, data.draw(damage(whole))).isprintable()


@quickly
@given(content=st.binary(max_size=200))
def test_noise_is_refused_in_one_way_only(content: bytes) -> None:
    for decode, _ in DECODERS.values():
        for start in (b"", b"v1\n", b"v2\n", b"\0\2v2", b"LZ4Block\x25", b"\x28\xb5\x2f\xfd"):
            assert refusal(decode, start + content).isprintable()


def refusal(decode: Callable[[bytes], object], content: bytes) -> str:
    """What the decoder says against it, if anything."""
    try:
        decode(content)
    except UnreadableError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["types", "several", "checksummed"])
@quickly
@given(data=st.data())
def test_a_state_file_that_was_changed_inside_is_read_or_named(
    written: dict[str, Written], tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    copy = copy_of(written[name], tmp_path_factory)
    facts = replace(CheckpointTap(copy.path).poll(), committed=0)
    rows = decompress((written[name].path / "state/0/0/1.delta").read_bytes(), LIMIT)
    (copy.path / "state/0/0/1.delta").write_bytes(zstandard.compress(data.draw(damage(rows))))
    [found] = OpenWindowsTap(copy.path).poll(facts)
    assert (found.reason is None) == (found.batch is not None)
    if found.reason is not None:
        why = str(found.reason.args["why"])
        assert why.startswith("state 0/0/1.delta: ")
        assert why.isprintable()


def test_a_frame_that_promises_more_than_it_holds_is_refused(written: dict[str, Written]) -> None:
    content = bytearray(content_of(written, "lz4"))
    (size,) = struct.unpack_from("<i", content, 13)
    for wrong in (size - 1, size + 1, 1 << 14):
        struct.pack_into("<i", content, 13, wrong)
        with pytest.raises(UnreadableError):
            decompress(bytes(content), LIMIT)


def test_what_grows_beyond_the_limit_is_refused(written: dict[str, Written]) -> None:
    for content in (content_of(written, "lz4"), zstandard.compress(b"\0" * LIMIT)):
        size = len(decompress(content, LIMIT))
        assert len(decompress(content, size)) == size
        with pytest.raises(UnreadableError, match=f"more than {size - 1:,} bytes"):
            decompress(content, size - 1)


def content_of(written: dict[str, Written], kind: str) -> bytes:
    """What a real query wrote for that decoder; rows as they are once decompressed."""
    name, _, rest = DECODERS[kind][1].partition("/")
    content = (written[name].path / rest).read_bytes()
    return decompress(content, LIMIT) if kind.startswith("rows") else content


def copy_of(written: Written, factory: pytest.TempPathFactory) -> Written:
    """One copy for all examples: each overwrites the same file."""
    copy = factory.getbasetemp() / "damaged" / written.path.name
    return Written(copy, written.progress) if copy.exists() else written.copy(copy)
