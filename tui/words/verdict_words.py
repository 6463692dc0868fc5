"""The word for each verdict, and its style. Pure."""

from ...engine.snapshot import VerdictName
from ...engine.snapshot.watermark import WORST_FIRST

WORDS: dict[VerdictName, str] = {verdict: verdict.upper() for verdict in WORST_FIRST}
STYLES: dict[VerdictName, str] = {
    "moving": "good", "slow": "stale", "stalled": "bad", "waiting": "stale", "unknown": "stale", "ended": "dim",
}  # fmt: skip
