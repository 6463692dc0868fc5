"""What a user is refused with: its type and code, and what it names; never its sentence."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest
from wmtop.engine.system.errors import RunError, UsageError


@contextmanager
def refused(kind: type[UsageError | RunError], code: str = "", *names: object) -> Generator[None]:
    """The block raises that error, as one line that names all of `names`; without a code any of its type."""
    with pytest.raises(kind) as caught:
        yield
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.code == (code or caught.value.code), text
    assert [name for name in names if str(name) not in text] == [], text
