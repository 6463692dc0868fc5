"""How many random runs a property is tried on: few and always the same, or many by hand.

`EXAMPLES=50 pytest tests/watermarks` tries fifty times as many, at random.
"""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

_FACTOR = int(os.environ.get("EXAMPLES", "1"))


def examples(count: int) -> Callable[[Any], Any]:
    """Hypothesis settings for `count` examples."""
    return settings(
        max_examples=count * _FACTOR,
        derandomize=_FACTOR == 1,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
