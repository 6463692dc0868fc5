"""What a rule finds: severity, channels, words and fixes, and the building blocks of its words."""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Literal, get_args

from msgspec import UNSET, Struct, UnsetType

from ..snapshot import Cause, Snapshot, VerdictName
from ..text import formatting as f
from ..text.formatting import horizon_words, name
from ..text.job_lines import line_in_job
from ..verdict.preview import ProposedSetting

Severity = Literal["critical", "warning", "info"]
"""Critical: results stop or are wrong. Warning: results suffer, or soon will. Info: worth knowing."""
EVERY_VERDICT: tuple[VerdictName, ...] = get_args(VerdictName)
MAX_NAMED = 3
"""Channels that a sentence names, at most."""

STILL_GIVES = 0.9
"""Share of its promised gain with which an offered setting stays."""

Text = str | Callable[[tzinfo | None], str] | None
"""A line of evidence, with a time in it as a function of the zone; None: there is no such line."""
n = f.counted


class Fix(Struct, frozen=True):
    """One action: an imperative, or a setting that a screen can preview (`value_ms` None: off)."""

    code: str
    text: str = ""
    """The imperative; that of a setting is made from the numbers below."""
    value_ms: int | None = None
    gain_ms: int | None = None
    """How much further the watermark would be (event time), had it been set from the start."""
    promise_ms: int | None = None
    """How far the watermark advances at the next emit; None: not known."""
    more_late: int | None = None
    """How many more records would have been late."""
    late_share: float | None = None
    """The share of records that would have been late."""
    about: bool = False
    """`late_share` is not exact."""
    horizon_ms: int | None = None
    """`late_share` is over the records of the last `horizon_ms`; None: since the start."""
    later_ms: float | None = None
    """How much later results would come (below 0: sooner)."""

    @property
    def gains_ms(self) -> int | None:
        """How far (ms) the watermark moves at the next emit; if that is not known, had it been set from the start."""
        return self.gain_ms if self.promise_ms is None else self.promise_ms

    @property
    def price(self) -> str | None:
        """`3.9 % late`; None: not known."""
        return None if self.late_share is None else f"{'≈ ' * self.about}{f.share(self.late_share)} late"

    @property
    def proposed(self) -> ProposedSetting | None:
        """The setting that a screen can preview."""
        idle = self.code == "set-idle-timeout"
        if not idle and (self.code != "set-lateness" or self.value_ms is None):
            return None
        return ProposedSetting(idle, self.value_ms)

    def words(self, snapshot: Snapshot) -> str:
        """The fix as an imperative; a setting with the line of the job that sets it, and its effects."""
        if self.text:
            return self.text
        idle = self.code == "set-idle-timeout"
        if idle and self.value_ms is None:
            what = "Switch the idle timeout off"
        else:
            what = f"Set {'an idle timeout of' if idle else 'the lateness to'} {f.setting(self.value_ms)}"
        line = line_in_job(snapshot, self.value_ms, idle=idle)
        how = f" in the job: {line}" if line is not None else ""
        effects = "; ".join(self._effects())
        return what + how + (f" ({effects})" if effects else "")

    def _effects(self) -> list[str]:
        out: list[str] = []
        if self.gain_ms:
            out.append(self._gain(self.gain_ms))
        if self.more_late:
            more = "more" if self.more_late > 0 else "fewer"
            out.append(f"{f.counted(abs(self.more_late), f'{more} late record')} so far")
        if (price := self.price) is not None:
            when = "so far" if self.horizon_ms is None else f"in the {horizon_words(self.horizon_ms)}"
            out.append(f"{price} {when}")
        if self.later_ms is not None and round(self.later_ms):
            side = "later" if self.later_ms > 0 else "sooner"
            out.append(f"results {f.duration(round(abs(self.later_ms)))} {side}")
        return out

    def _gain(self, gain_ms: int) -> str:
        """How much the watermark gains: at the next emit, and, where that differs, with the setting from the start."""
        now_ms = self.promise_ms
        if gain_ms > 0 and now_ms is not None and now_ms != gain_ms:
            at_once = f"gains {f.duration(now_ms)}" if now_ms else "gains nothing"
            return f"the watermark {at_once} at once ({f.duration(gain_ms)} if set from the start)"
        gains = f"the watermark {'gains' if gain_ms > 0 else 'falls back'} {f.duration(abs(gain_ms))}"
        return gains if now_ms is not None or gain_ms < 0 else f"{gains} if set from the start"


class Offered(Struct, frozen=True):
    """An idle timeout that was offered for a stall; the reader of successive snapshots passes it on."""

    moved_ms: int | None
    """When the watermark last advanced: the stall."""
    value_ms: int
    gain_ms: int

    def gives(self, snapshot: Snapshot, gain_ms: int) -> bool:
        """Whether it is still offered for the snapshot's stall, where it would gain that much now."""
        return snapshot.level.moved_ms == self.moved_ms and gain_ms >= STILL_GIVES * self.gain_ms


class Finding(Struct, frozen=True, kw_only=True):
    """One problem with its words; `size` orders findings of one severity (a share, ms or a count: larger is worse)."""

    code: str = ""
    """Its name in JSON, that of its rule: `diagnose` sets it."""
    severity: Severity = "warning"
    size: float = 0.0
    channels: tuple[str, ...] = ()
    """The channels to blame, the worst first; empty: none."""
    title: str
    impact: str
    """The effect on the results."""
    cause: str
    evidence: Sequence[Text]
    screens: Sequence[str] = ()
    """The further screens that show it, the best first; empty: those of its rule."""
    channel: str | UnsetType | None = UNSET
    """The channel whose page shows it best; unset: the only one of `channels`."""
    fixes: tuple[Fix, ...] = ()
    """The fixes, the best first."""
    blames: Cause | None = None
    """What all of `channels` do to hold back the watermark, where the verdict is to name them."""
    windows: int = 0
    """Open windows that wait for them alone."""
    not_for: tuple[VerdictName, ...] = ()
    """Verdicts that this one is no reason for, although its rule says that such findings are."""


def offered_by(snapshot: Snapshot, findings: Sequence[Finding], before: Offered | None) -> Offered | None:
    """What is offered for the snapshot's stall, to be passed to the next `diagnose`; `before`: what was."""
    moved_ms = snapshot.level.moved_ms
    if before is not None and before.moved_ms != moved_ms:
        before = None
    fixes = [fix for finding in findings for fix in finding.fixes if fix.code == "set-idle-timeout"]
    for fix in fixes:
        if fix.value_ms is not None and (fix.gains_ms or 0) > 0:
            same = before is not None and before.value_ms == fix.value_ms
            return before if same else Offered(moved_ms, fix.value_ms, fix.gains_ms or 0)
    return before


def span(ms: float | None) -> str:
    """A duration, `–` where it is not known."""
    return f.UNKNOWN if ms is None else f.duration(round(ms))


def names(channels: Sequence[str]) -> str:
    """`F9`, `F9 and YV`, `F9, YV, VX and 12 more channels`."""
    shown = [name(channel) for channel in channels[:MAX_NAMED]]
    rest = len(channels) - len(shown)
    if rest:
        return f"{', '.join(shown)} and {n(rest, 'more channel')}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def verb(channels: Sequence[object], singular: str, plural: str) -> str:
    """The form of the verb for these channels."""
    return singular if len(channels) == 1 else plural


def stamped(label: str, ms: int | None) -> Text:
    """Evidence: a moment (epoch ms) after its label; None: not known."""
    return None if ms is None else lambda zone: label + f.stamp(ms, zone)


def column(text: str | None) -> str:
    """The time column by its name."""
    return "the time column" if text is None else f"column {name(text)}"


WAIT = Fix("wait", "Wait: this needs more time or data")
ADD_READERS = Fix(
    "add-readers", "Add readers, or make the sink faster: the records are there, but they are not read in time"
)
ADD_WATERMARK = Fix("add-watermark", "Call withWatermark before the first stateful operator")
CHECK_JOB = Fix("check-job", "Look at the job's exceptions in Flink's web UI, and at the JobManager's log")
CHECK_PRODUCERS = Fix("check-producers", "Check the producers: none of them sends data")
CHECK_QUERY = Fix("check-query", "Check the query: is its process running, and what does its log say?")
CHECK_RUNNING = Fix("check-query", "Check what the query waits for: its log, the driver's thread dump (Spark UI)")
CONVERT_TO_UTC = Fix(
    "convert-to-utc", "Convert the times to UTC where they are written, or write them with an offset (+02:00)"
)
SEE_OPERATORS = Fix("see-operators", "See where the watermark gets lost (Operators, key o)")
_IDLE_EXAMPLE_MS = 60_000


def check_channels(channels: Sequence[str], what: tuple[str, str]) -> Fix:
    """To find out why channels have no data or are behind: the verb for one of them, and for several."""
    which = f"{names(channels)} {verb(channels, *what)}"
    return Fix("check-channels", f"Find out why {which}: producer, network, an unused partition?")


def change_idle_timeout(snapshot: Snapshot, how: Literal["add", "lengthen", "shorten"]) -> Fix:
    """To set another idle timeout where none that is known to be better can be named."""
    if how == "add" and (line := line_in_job(snapshot, _IDLE_EXAMPLE_MS, idle=True)) is not None:
        text = "Set an idle timeout a little longer than the channels' usual pause in the job, for example " + line
        return Fix("add-idle-timeout", text)
    text, key = {
        "add": ("Set an idle timeout a little longer than the channels' usual pause", "]"),
        "lengthen": ("Set an idle timeout longer than the channels' usual pause", "]"),
        "shorten": ("Set a shorter idle timeout, a little longer than the usual pause", "["),
    }[how]
    key = f"key {key}, " if snapshot.whatif_idle else ""  # the key previews only where there are timeouts to choose
    return Fix(f"{how}-idle-timeout", f"{text} ({key}--idle-after)")


def lengthen_lateness(snapshot: Snapshot, value_ms: int | None = None) -> Fix:
    """To set a longer lateness, in the job if it is attached; `value_ms` None: how long is not known."""
    text = "Set a longer lateness (watermark delay)"
    if snapshot.is_attached:
        needed = None if value_ms is None else line_in_job(snapshot, value_ms)
        several = len({node.delay_ms for node in snapshot.spark.nodes or ()}) > 1  # whose is too short is not known
        line = None if several else line_in_job(snapshot, 2 * (snapshot.settings.lateness_ms or 0) or 10_000)
        if needed is not None:
            text = f"Set a longer delay in the job: {needed}"
        elif line is not None:
            text = f"Set a longer delay in the job, for example {line}"
    return Fix("lengthen-lateness", text, value_ms)
