"""Programs on keys: what a configuration may say, what a program is given, and that footers and help show them."""

from collections.abc import Iterator

import pytest
from wmtop.tui.words.texts import Chosen
from wmtop.tui.words.user_commands import UserCommand, command_reader, facts_of, use_commands

from ..canned import live, reported
from ..drive import Driven, drive

TAIL = {"key": "K", "run": ["kcat", "-p", "{channel}", "$HOME; {target}"], "about": "tail it"}


@pytest.fixture
def tail() -> Iterator[None]:
    use_commands({"tail": command_reader({})(TAIL)})
    yield
    use_commands({})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({**TAIL, "key": "w"}, "windows"),
        ({**TAIL, "runs": ["x"]}, "did you mean run?"),
        ({"key": "K"}, "needs a key and a program"),
        ({**TAIL, "run": "kcat -p 1"}, "needs a key and a program"),
        ({**TAIL, "key": "nokey"}, "is not a key"),
        ("kcat", "needs a key and a program"),
    ],
)
def test_wrong_command_is_refused_with_why(value: object, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        command_reader({})(value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("keys", "first", "second", "said"),
    [
        ({}, "K", "K", "runs kcat"),
        ({"lateness-longer": "K"}, "f2", "K", "lateness-longer"),
        ({}, "space", "f2", "has the action"),
    ],
)
def test_two_commands_on_a_key_and_a_key_in_force_are_refused(
    keys: dict[str, str], first: str, second: str, said: str
) -> None:
    read = command_reader(keys)
    with pytest.raises(ValueError, match=said):
        [read({**TAIL, "key": key}) for key in (first, second)]


def test_key_that_an_action_gave_up_is_free() -> None:
    assert command_reader({"windows": "K"})({**TAIL, "key": "w"}).key == "w"


def test_command_gets_the_facts_of_the_row_as_they_are() -> None:
    facts = facts_of("flights", Chosen("F9", "F9  13:47"), live().channels)
    assert facts["channel"] == facts["name"] == "F9"
    assert int(facts["watermark_ms"]) > 0
    assert command_reader({})(TAIL).arguments(facts) == ["kcat", "-p", "F9", "$HOME; flights"]
    with pytest.raises(ValueError, match="no nosuch; it has target, name"):
        UserCommand("K", ("x", "{nosuch}")).arguments(facts)


def test_commands_are_in_footer_and_help(tail: None) -> None:
    async def scenario(it: Driven) -> None:
        await it.says("K tail", "#keys")
        await it.press("w")
        await it.says("K tail", "#keys")
        await it.press("question_mark")
        assert any("tail it" in str(part.render()) for part in it.app.screen.query("Static"))

    drive(scenario, *reported(live()), size=(240, 50))
