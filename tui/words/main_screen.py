"""The content of the main screen: the newest snapshot, the view of it, what is derived from both, the footer. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from ...engine.doctor import Finding, Offered, diagnose, offered_by
from ...engine.doctor.condition import SILENT_MS
from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.verdict.preview import AppliedNow, ProposedSetting, effect_now
from .barrel import Stave
from .channels import ChannelRow, Order, View, by_name, ordered, preview_of, staves
from .keys import LINKS, Hint, hint
from .kinds import presenter_of
from .preview import Applied, LatenessPreview, Preview, from_start_parts, now_parts, setting_in_force
from .progress import Playback, lags_of
from .recent import Recent
from .spans import SPARK_CELL_MS, SPARK_CELLS, Part, Top, WatermarkLine, part
from .state import Condition, Lost, condition, replay_condition, takes_changes
from .status_line import status_parts
from .texts import OPEN_INSTANCE
from .user_commands import command_hints
from .verdict import Offer, offer_of, verdict_parts


class Shown:
    """The shown snapshot, which is older than the newest while the picture is frozen; `clock` is monotonic (s)."""

    def __init__(self, snapshot: Snapshot, recent: Recent, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._newest = self.snapshot = snapshot
        self.recent = recent
        self._heard_s = clock()
        self.view = View()
        self.lost: Lost | None = None
        self.playback: Playback | None = None
        self.recording = False
        self.preview: Preview | None = None
        self.now: AppliedNow | None = None
        """The effect of the preview at the next emit."""
        self.applied: Applied | None = None
        """The last change that this screen made."""
        self.for_job: tuple[str, str] | None = None
        """The line to change in the job, which was copied, and what follows from it."""
        self.offer: Offer | None = None
        """The setting that the verdict's line names."""
        self.findings: Sequence[Finding] = ()
        self._offered: Offered | None = None
        self.staves: list[Stave] = []
        self.entries: list[ChannelRow] = []
        self._named: list[ChannelRow] = []
        self._order = Order()
        self._named_of: tuple[Snapshot, int | None] | None = None
        self._preview_of: tuple[Snapshot, ProposedSetting | None] | None = None
        self._judged_silent = False
        self._lags: list[int | None] = []
        self._now_share: float | None = None

    def take(self, snapshot: Snapshot, recent: Recent) -> None:
        """Take the newest snapshot, to be shown by `adopt`."""
        self._newest, self.recent, self._heard_s = snapshot, recent, self._clock()

    def adopt(self) -> None:
        """Show the newest snapshot."""
        self.snapshot = self._newest
        self._lags = lags_of(self.recent.points, SPARK_CELLS, SPARK_CELL_MS)
        self._now_share = self.recent.late_share()
        self.diagnose()

    def lose(self, lost: Lost) -> None:
        """No more will come."""
        self.lost = lost
        self.diagnose()

    def diagnose(self) -> None:
        """Compute the findings, the setting that would fix the worst, and the effect of the last change."""
        past = self.recent.until(self.snapshot)
        lost, silent_ms, offered = self.lost_text, self.silent_ms, self._offered
        self.findings = diagnose(self.snapshot, past, lost=lost, silent_ms=silent_ms, offered=offered)
        self._offered = offered_by(self.snapshot, self.findings, offered)
        self._judged_silent = self._is_silent
        self.offer = offer_of(self.snapshot, self.findings)
        if self.applied is not None:
            self.applied = self.applied.seen(self.snapshot)

    def look(self, **changes: Any) -> None:
        """Change fields of `View`."""
        self.view = replace(self.view, **changes)

    def arrange(self) -> None:
        """Sort the channels, for barrel, table and heat map alike, and filter the rows of the table."""
        view, of, by = self.view, self._named_of, (self.view.sort, self.view.reverse, self.view.inside)
        if of is None or of[0] is not self.snapshot or of[1] != view.inside:
            self._named_of = (self.snapshot, view.inside)
            self._named = by_name(self.snapshot, view.inside)
        rows = ordered(self._named, view.sort, reverse=view.reverse)
        is_still = self.playback is not None and not self.playback.playing  # each step of it shows its own moment
        rows = rows if is_still else self._order.arrange(rows, self._clock(), by)
        self.staves = staves(self.snapshot, view.inside, rows)
        found = view.pattern
        self.entries = rows if found is None else [row for row in rows if found.matches(row.view.channel)]

    def update_preview(self) -> None:
        """Compute the preview of the wished setting, unless it is that of the last call."""
        proposed, of = self.view.proposed, self._preview_of
        if of is not None and of[0] is self.snapshot and of[1] == proposed:
            return
        self._preview_of = (self.snapshot, proposed)
        self.preview = preview_of(self.snapshot, proposed)
        self.now = None if proposed is None or self.preview is None else effect_now(self.snapshot, proposed)

    def wants(self, proposed: ProposedSetting | None) -> None:
        """Set the wished setting; none if it is the one in force."""
        self.for_job = None
        is_in_force = proposed is not None and proposed == setting_in_force(self.snapshot, proposed)
        self.look(proposed=None if is_in_force else proposed)

    def apply(self, proposed: ProposedSetting, *, undoes: bool = False) -> None:
        """Store a change that is made now, and the value it replaces; `undoes`: it takes back the one before."""
        before = setting_in_force(self.snapshot, proposed)
        self.applied = Applied(proposed, before, self.snapshot.settings.version, undoes=undoes)

    def hide_result(self) -> bool:
        """Drop the line about the last change, or the line for the job; whether there was one."""
        shown = self.for_job is not None or (self.applied is not None and bool(self.applied.parts(self.snapshot)))
        self.for_job = None
        self.applied = None if self.applied is None else replace(self.applied, since_ms=0)
        return shown

    @property
    def is_replay(self) -> bool:
        """Whether a recording is shown: nothing can be applied or frozen."""
        return self.playback is not None

    @property
    def lost_text(self) -> str | None:
        """Why no further snapshot will come."""
        return None if self.lost is None else self.lost.text

    @property
    def silent_ms(self) -> int | None:
        """Time since the last snapshot; None: a recording."""
        return None if self.is_replay else round(1_000 * (self._clock() - self._heard_s))

    @property
    def _is_silent(self) -> bool:
        """Whether a running engine has sent nothing for longer than a healthy one pauses."""
        return (self.silent_ms or 0) >= SILENT_MS

    @property
    def condition(self) -> Condition:
        """The state of the run in one word, and a note."""
        if self.playback is not None:
            return replay_condition(self.snapshot, self.playback)
        silent_s = self._clock() - self._heard_s
        now = condition(self.snapshot, frozen=self.view.frozen, silent_s=silent_s, lost=self.lost)
        return replace(now, word=f"{now.word} · REC") if self.recording else now

    @property
    def top(self) -> Top:
        """The lines at the top, which also change without a new snapshot."""
        if self._is_silent != self._judged_silent:
            self.diagnose()
        snapshot, zone = self.snapshot, self.view.zone
        now, words, from_start = self.condition, presenter_of(snapshot), list[Part]()
        if self.for_job is not None:
            from_start = [part((f" {self.for_job[1]}", "text"))] if self.for_job[1] else []
        elif self.preview is not None and snapshot.target.can_apply:
            from_start = from_start_parts(snapshot, self.preview)
        return Top(
            status=status_parts(snapshot, now, zone),
            verdict=verdict_parts(
                snapshot,
                self.findings,
                offer=self.offer,
                lost=self.lost_text,
                silent_ms=self.silent_ms,
                key=hint("verdict-fix").keys,
                zone=zone,
            ),
            watermark_line=WatermarkLine(words.watermark(zone), words.holder(zone), self._lags),
            tuning=words.tuning(self.preview, self._now_share),
            now=self._now_line(snapshot.target.can_apply),
            from_start=from_start,
            banner=None if now.note is None else (now.note, now.style),
            log=snapshot.log if now.style == "bad" else None,
        )

    def _now_line(self, can_apply: bool) -> Sequence[Part]:
        if not takes_changes(self.snapshot, replay=False, gone=self.lost is not None):
            nothing = part(("nothing can be applied, the engine does not run", "stale"), gap="")
            return () if self.preview is None else [part((" now: ", "dim")), nothing]
        if self.for_job is not None:
            return [part((" Change in the job (copied): ", "dim"), (self.for_job[0], "strong"))]
        if self.preview is not None:
            return now_parts(self.snapshot, self.now, can_apply=can_apply)
        return () if self.applied is None else self.applied.parts(self.snapshot)


def link_hints(snapshot: Snapshot, findings: int = 0) -> list[Hint]:
    """The footer's hints for the further screens with something to show; the doctor's says how much it has found."""
    words, shown = {"Doctor": f"doctor ({findings})"} if findings else {}, presenter_of(snapshot)
    links = [link for link in LINKS if shown.not_here(link.name) is None]
    return [hint(link.name.lower(), words.get(link.name)) for link in links]


def apply_words(snapshot: Snapshot, preview: Preview) -> str:
    """The effect of Enter on a preview."""
    value = preview.lateness_ms if isinstance(preview, LatenessPreview) else preview.idle_after_ms
    return f"apply {f.setting(value)}" if snapshot.target.can_apply else "line for the job"


def hints(
    snapshot: Snapshot,
    view: View,
    preview: Preview | None,
    further: Sequence[Hint] = (),
    *,
    replay: bool = False,
    gone: bool = False,
    on_windows: bool = False,
) -> list[Hint]:
    """The keys that work now but a replay's own; `further` open the further screens, `gone`: the engine has ended."""
    out: list[Hint] = []
    can_apply = snapshot.target.can_apply
    if preview is not None:
        takes = takes_changes(snapshot, replay=replay, gone=gone)
        out += [hint("apply", apply_words(snapshot, preview))] if takes else []
        out.append(hint("drop", "drop"))
    if snapshot.settings.tunable:
        rank = 4 if preview is None else 1
        out += [hint("lateness-longer", rank=rank)] if can_apply or snapshot.whatif else []
        out.append(hint("lateness-type") if out or can_apply else hint("lateness-type", "lateness", 5))
    elif snapshot.target.previews_any_value:
        out += [hint("lateness-longer", rank=9), hint("lateness-type", "lateness", 9), hint("idle-longer", rank=9)]
    if snapshot.whatif_idle:
        out.append(hint("idle-longer", rank=5 if preview is None else 2))
    if preview is None and on_windows:
        out.append(hint("open", "window", 3))
    elif preview is None and snapshot.instances is not None and view.inside is None:
        out.append(hint("open", OPEN_INSTANCE, 3))
    elif preview is None and snapshot.channels:
        out.append(hint("open"))
    filtered = view.pattern is not None or view.windows_pattern is not None
    if preview is None and (view.inside is not None or filtered):
        out.append(hint("back", "back" if view.inside is not None else "clear filter", 3))
    out += further
    if snapshot.channels:
        axis = hint("axis", "linear" if view.logarithmic else "log")
        heat = hint("heat", "barrel" if view.heat else None)
        drawn = [axis, heat] if snapshot.target.has_watermark else []
        out += [hint("channel-right"), hint("sort"), hint("filter"), *drawn]
    freeze = hint("freeze", "resume", 0) if view.frozen else hint("freeze")
    zone = hint("zone", "local" if view.zone else "UTC")
    live = [] if replay else [freeze, hint("record")]
    return [*out, *command_hints(), *live[:1], zone, hint("theme"), hint("svg"), *live[1:], hint("help"), hint("quit")]


def detail_hints(shown: Shown, own: Sequence[Hint], *, filtered: bool) -> list[Hint]:
    """The keys of a further screen that have an effect now; `own` are those that only this screen has."""
    preview, snapshot, view = shown.preview, shown.snapshot, shown.view
    out = [hint("back", "clear filter" if filtered else None) if preview is None else hint("drop", "drop")]
    if preview is not None and takes_changes(snapshot, replay=shown.is_replay, gone=shown.lost is not None):
        out.insert(0, hint("apply", apply_words(snapshot, preview)))
    rank = 9 if preview is None else 1
    if snapshot.settings.tunable and snapshot.whatif:
        out.append(hint("lateness-longer", rank=rank))
    if snapshot.whatif_idle:
        out.append(hint("idle-longer", rank=rank + 1))
    out += [*own, *command_hints()]
    if not shown.is_replay:
        out.append(hint("freeze", "resume" if view.frozen else None, 0 if view.frozen else 6))
    return [*out, hint("zone", "local" if view.zone else "UTC", 10), hint("help"), hint("quit", rank=7)]
