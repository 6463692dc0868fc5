from collections.abc import Callable

import msgspec
import pytest
from wmtop.engine.feed.messages import Change, Header, Reply, Stop, decode_from_engine, decode_to_engine, encode_line
from wmtop.engine.snapshot import Snapshot

MakeSnapshot = Callable[..., Snapshot]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (Stop(id=1), b'{"kind":"stop","id":1}\n'),
        (Change(id=2, lateness_ms=0), b'{"kind":"set","id":2,"lateness_ms":0,"who":""}\n'),
        (Change(id=3, idle_after_ms=None, who="ada"), b'{"kind":"set","id":3,"idle_after_ms":null,"who":"ada"}\n'),
    ],
)
def test_what_a_command_does_not_name_stays_out_of_its_line(command: Change | Stop, line: bytes) -> None:
    assert encode_line(command) == line
    assert decode_to_engine(line) == command


def test_from_the_engine_and_back(header: Header, snapshot: MakeSnapshot) -> None:
    for message in (header, snapshot(3, error="two\nlines"), Reply(id=1, ok=False, text="no")):
        line = encode_line(message)
        assert line.count(b"\n") == 1
        assert decode_from_engine(line) == message


@pytest.mark.parametrize(
    "line", [b"", b"{", b'{"kind":"stop","id":1}', b'{"kind":"reply","id":1,"ok":true,"text":"\xff"}']
)
def test_anything_else_is_a_decode_error(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_from_engine(line)


def test_what_cannot_be_read_is_said_in_one_printable_line() -> None:
    for decode in (decode_from_engine, decode_to_engine):
        with pytest.raises(msgspec.DecodeError) as error:
            decode(b'{"kind":"a\\nb\\u001b[2J"}')
        assert str(error.value).isprintable()
