"""Real, disordered records to replay: every departure from New York's three airports in 2013.

The rows are sorted by `ARRIVAL`, so a reader meets them in the order in which the system would have heard of them.
"""

from importlib.resources import files
from pathlib import Path
from typing import Final

TIME: Final = "scheduled"
"""The event time column: the scheduled departure (timestamp[ms], UTC)."""
ARRIVAL: Final = "departed"
"""The arrival column: the actual departure (timestamp[ms], UTC), which is when a record reaches the system."""
CHANNEL: Final = "carrier"
"""The channel column: the two-character code of the airline."""

DEMO_START: Final = "2013-07-10T16:00:00Z"
"""The arrival time from which the demo replays: noon in New York on the day with the most departures over 5 hours late.

15 of the 16 carriers fly on it. It starts three hours before the thunderstorms, so that one sees the normal disorder
first, then many late records and a watermark that changes hands, then a night in which the carriers go quiet.
`make_flights` prints the days that it was chosen from.
"""


def flights() -> Path:
    """The Parquet file with the flights of the year: the three columns above, `flight`, `origin` and `dest`."""
    return Path(str(files(__name__).joinpath("flights.parquet")))
