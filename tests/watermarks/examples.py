"""How many random runs a property is tried on: `count` of them with the profile of `make test` (`tests/conftest.py`).

`pytest --hypothesis-profile=many tests/watermarks` tries fifty times as many, at random.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

USUAL = 100
"""What hypothesis tries where nothing else is set: a profile with a tenth of it tries a tenth of `count`."""


def examples(count: int) -> Callable[[Any], Any]:
    """Hypothesis settings for `count` examples."""
    return settings(
        max_examples=max(5, count * settings.default.max_examples // USUAL),
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
