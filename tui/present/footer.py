"""The footer: the keys that have an effect now, the most important first. Pure."""

from collections.abc import Container, Sequence

from ...engine.core.snapshot import Snapshot
from . import formatting as f
from .condition import takes_changes
from .keys import LINKS, Hint, hint
from .presenter import presenter_of
from .preview import LatenessPreview, Preview
from .screen_words import OPEN_INSTANCE
from .target import target_of
from .view import View


def link_hints(names: Container[str], findings: int = 0) -> list[Hint]:
    """The footer's hints for those of the further screens that are named; the doctor's says how much it has found."""
    words = {"Doctor": f"doctor ({findings})"} if findings else {}
    return [hint(link.name.lower(), words.get(link.name)) for link in LINKS if link.name in names]


def apply_words(snapshot: Snapshot, preview: Preview) -> str:
    """The effect of Enter on a preview."""
    value = preview.lateness_ms if isinstance(preview, LatenessPreview) else preview.idle_after_ms
    return f"apply {f.setting(value)}" if presenter_of(snapshot).can_apply else "line for the job"


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
    """The keys that have an effect now, the most important first; `further` open the further screens.

    A replay's own keys are not here. `gone`: the engine has ended.
    """
    out: list[Hint] = []
    can_apply = presenter_of(snapshot).can_apply
    if preview is not None:
        takes = takes_changes(snapshot, replay=replay, gone=gone)
        out += [hint("apply", apply_words(snapshot, preview))] if takes else []
        out.append(hint("drop", "drop"))
    if snapshot.settings.tunable:
        rank = 4 if preview is None else 1
        out += [hint("lateness-longer", rank=rank)] if can_apply or snapshot.whatif else []
        out.append(hint("lateness-type") if out or can_apply else hint("lateness-type", "lateness", 5))
    elif target_of(snapshot).kind == "flink":
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
        out += [
            hint("channel-right"),
            hint("sort"),
            hint("filter"),
            axis,
            hint("heat", "barrel" if view.heat else None),
        ]
    freeze = hint("freeze", "resume", 0) if view.frozen else hint("freeze")
    return [
        *out,
        *([] if replay else [freeze]),
        hint("zone", "local" if view.zone else "UTC"),
        hint("theme"),
        hint("svg"),
        *([] if replay else [hint("record")]),
        hint("help"),
        hint("quit"),
    ]
