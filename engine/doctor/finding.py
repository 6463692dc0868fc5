"""The result of a rule: code, severity, channels, numbers and fixes; `tui/words` has the words."""

from typing import Literal

from msgspec import Struct

Severity = Literal["critical", "warning", "info"]
"""Critical: results stop or are wrong. Warning: results suffer, or soon will. Info: worth knowing. The worst comes
first.
"""

FixCode = Literal[
    "set-idle-timeout",
    "add-idle-timeout",
    "lengthen-idle-timeout",
    "shorten-idle-timeout",
    "set-lateness",
    "lengthen-lateness",
    "use-strategy-with-lateness",
    "set-future-guard",
    "drop-future-rows",
    "filter-future-records",
    "set-time-unit",
    "set-time-column",
    "convert-to-utc",
    "correct-clock",
    "fix-cause",
    "set-max-drift",
    "check-channels",
    "check-producers",
    "check-record",
    "send-heartbeats",
    "add-readers",
    "add-capacity",
    "speed-up-batches",
    "lengthen-trigger",
    "free-watermark",
    "add-watermark",
    "tap-events",
    "split-query",
    "feed-input",
    "use-max-policy",
    "fill-event-time",
    "event-time-after-1970",
    "shorten-delay",
    "remove-upper-watermark",
    "watermark-the-source",
    "keep-event-time",
    "key-with-window",
    "bound-join",
    "dedup-with-time",
    "check-input",
    "tap-input",
    "check-engine",
    "check-query",
    "check-job",
    "check-jobmanager",
    "check-task-managers",
    "fetch-metrics",
    "submit-job",
    "check-source",
    "lower-max-channels",
    "resume-source",
    "see-blockers",
    "see-progress",
    "see-late-records",
    "see-operators",
    "check-operator",
    "collect-late-records",
    "set-watermark-strategy",
    "check-event-time",
    "attach-reports",
    "wait",
]


class Fix(Struct, frozen=True, kw_only=True):
    """One action; `value_ms` is the setting's new value (None: off, or the fix has no value)."""

    code: FixCode
    value_ms: int | None = None
    gain_ms: int | None = None
    """How much further the watermark would be (event time)."""
    more_late: int | None = None
    """How many more records would have been late."""
    late_share: float | None = None
    horizon_ms: int | None = None
    """`late_share` is over the records of the last `horizon_ms`; None: since the start."""
    later_ms: float | None = None
    """How much later results would come (below 0: sooner)."""
    unit: str | None = None

    @property
    def previewable(self) -> bool:
        """Whether it is a setting with a value that a screen can preview."""
        return self.code in ("set-idle-timeout", "set-lateness")


class Finding(Struct, frozen=True, kw_only=True, tag_field="code"):
    """One problem; `size` orders findings of one severity (a share, ms or a count: larger is worse)."""

    severity: Severity
    size: float = 0.0
    channels: tuple[str, ...] = ()
    """The channels to blame, the worst first; empty: none."""
    fixes: tuple[Fix, ...] = ()
    """The fixes, the best first."""

    @property
    def code(self) -> str:
        """The finding's name in JSON."""
        return str(type(self).__struct_config__.tag)
