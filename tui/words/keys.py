"""The keys: one table from which bindings, footers, the help, the palette and the README's table are made. Pure."""

import re
import unicodedata
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

Place = str
"""`app` (everywhere), `main`, `detail` (every further screen), `replay`, `list` (every list), or a screen's name."""


class Bind(Struct, frozen=True):
    """One key (comma-separated alternatives, by Textual's names) and the action that it runs."""

    name: str
    key: str
    action: str
    title: str = ""
    """Its name in the palette; empty: it is not there."""
    priority: bool = False


class KeyRow(Struct, frozen=True):
    """Keys that belong together: how footers and the help show them.

    `rank` 0 is never left out of a footer, the greatest rank first; without a `label` it is in no footer. `binds` is
    empty where a widget has the keys of its own.
    """

    places: tuple[Place, ...]
    shown: str
    help: str
    label: str = ""
    rank: int = 9
    binds: tuple[Bind, ...] = ()


class Hint(Struct, frozen=True):
    """A hint of the footer: keys, their effect, and the action of a click; the greatest rank is dropped first."""

    keys: str
    word: str
    action: str
    rank: int = 0


class Link(Struct, frozen=True):
    """A further screen: the key that opens it (or none), its name, its topic in one line, and its class."""

    key: str
    name: str
    about: str
    screen: str
    """`module:Class` in `tui/screens`, imported when it is first opened."""
    is_list: bool = True
    """Whether it has rows, which can be filtered."""


SCREENS = (
    Link("b", "Blockers", "Who holds back the watermark, step by step, and what frees each", "channels:BlockersScreen"),
    Link("w", "Windows", "Open and fired windows, and why one does not fire", "windows:WindowsScreen"),
    Link("l", "Lateness", "How late records are, and what each lateness or idle timeout costs",
         "lateness:LatenessScreen", is_list=False),
    Link("t", "Time", "Event time against processing time, record by record", "charts:TimeScreen", is_list=False),
    Link("o", "Operators", "The chain from source to window, and what lags in it", "channels:OperatorsScreen"),
    Link("g", "Progress", "Rows, batches, backlog and state over time", "charts:ProgressScreen", is_list=False),
    Link("d", "Doctor", "What is wrong, what it costs, and the fix", "doctor:DoctorScreen"),
    Link("h", "History", "Which channel held back the watermark, how long, and why", "history:HistoryScreen"),
    Link("e", "Events", "Alerts, verdicts, takeovers and changed settings, with their times", "history:EventsScreen"),
    Link("", "Who is late", "Which values the late records have", "lateness:WhoIsLateScreen"),
)  # fmt: skip
"""All further screens, in the order of the footer; a new one is a line here and its class."""
LINKS = tuple(link for link in SCREENS if link.key)
"""Those with a key."""

_BOTH: tuple[Place, ...] = ("main", "detail")
LISTS: tuple[Place, ...] = (*(link.name for link in SCREENS if link.is_list), "Window", "Late records")
"""The screens that are lists, also those that only another screen opens."""

ROWS: tuple[KeyRow, ...] = (
    # Tuning
    KeyRow(_BOTH, "+ -", "preview a longer or shorter lateness", "lateness", 4,
           (Bind("lateness-longer", "plus", "lateness(1)"), Bind("lateness-shorter", "minus", "lateness(-1)"))),
    KeyRow(_BOTH, "=", "type a lateness to preview: 45m, 1h30m, 90s", "type", 12,
           (Bind("lateness-type", "equals_sign", "type_lateness", "Type a lateness"),)),
    KeyRow(_BOTH, "[ ]", "preview a shorter or longer idle timeout", "idle", 5,
           (Bind("idle-shorter", "left_square_bracket", "idle(-1)"),
            Bind("idle-longer", "right_square_bracket", "idle(1)"))),
    KeyRow(_BOTH, "v", "preview the fix that the verdict's line names", "fix", 3, (Bind("verdict-fix", "v", "fix"),)),
    KeyRow(_BOTH, "Enter", "apply the preview to the running engine", "apply", 0,
           (Bind("apply", "enter", "apply", priority=True),)),
    KeyRow(_BOTH, "u", "undo the last change of a setting", "undo", 3, (Bind("undo", "u", "undo"),)),
    KeyRow(_BOTH, "Esc", "drop the preview; else go back, clear the filter", "back", 0,
           (Bind("drop", "escape", "drop", priority=True), Bind("back", "escape", "back", "Back"))),
    # Looking
    KeyRow(("main",), "← →", "select a channel in the barrel; the table follows", "select", 15,
           (Bind("channel-left", "left", "stave(-1)"), Bind("channel-right", "right", "stave(1)"))),
    KeyRow(("list",), "↑ ↓ j k", "select a row; on the main screen the barrel follows (also PgUp, PgDn, Home, End)",
           "", 9,
           (Bind("row-up", "up,k", "by(-1)"), Bind("row-down", "down,j", "by(1)"),
            Bind("page-up", "pageup", "by(-1, True)"), Bind("page-down", "pagedown", "by(1, True)"),
            Bind("row-first", "home", "by(-1_000_000_000)"), Bind("row-last", "end", "by(1_000_000_000)"))),
    KeyRow(("main",), "Tab", "go to the other table, in a replay also to the timeline"),
    KeyRow(("main",), "Enter", "open the channel's page, the window's, or the channels inside an instance",
           "channel", 13, (Bind("open", "enter", "open"),)),
    KeyRow(("main",), "s r", "sort the channels by the next column, reverse the order (or click a column's title)",
           "sort", 11, (Bind("sort", "s", "sort", "Sort the channels"), Bind("sort-reverse", "r", "reverse"))),
    KeyRow(("main", *LISTS), "/", "filter the list by a regular expression; with ! before it: all others", "filter", 11,
           (Bind("filter", "slash", "filter", "Filter"),)),
    KeyRow(("main",), "x", "event time, or log distance behind the fastest channel", "log", 16,
           (Bind("axis", "x", "axis", "Linear or log axis"),)),
    KeyRow(("main",), "m", "heat map: how far each channel was behind, over time; again: the barrel", "heat map", 14,
           (Bind("heat", "m", "heat", "Heat map or barrel"),)),
    KeyRow(_BOTH, "p", "freeze the picture; data keeps coming", "freeze", 10,
           (Bind("freeze", "p", "freeze", "Freeze or resume"),)),
    KeyRow(_BOTH, "T", "UTC or local time", "local", 17, (Bind("zone", "T", "zone", "UTC or local time"),)),
    *(
        KeyRow(_BOTH, link.key, f"{link.name}: {link.about}", link.name.lower(),
               0 if link.name == "Doctor" else 6 + place,
               (Bind(link.name.lower(), f"{link.key},{place + 1}", f"detail('{link.name}')", link.name),))
        for place, link in enumerate(LINKS)
    ),
    # Everywhere
    KeyRow(("app",), "c", "dark, light or high-contrast theme; remembered", "theme", 19,
           (Bind("theme", "c", "other_theme", "Theme"),)),
    KeyRow(("app",), "S", "save the screen as SVG", "SVG", 18, (Bind("svg", "S", "save_svg", "Save SVG"),)),
    KeyRow(("app",), "y Y", "copy the name of the selected row, or the whole row, to the clipboard", "copy", 20,
           (Bind("copy-name", "y", "copy_name", "Copy the name"), Bind("copy-row", "Y", "copy_row", "Copy the row"))),
    KeyRow(("app",), "X J", "save the table of this screen as CSV or as JSON, in a new file", "CSV/JSON", 21,
           (Bind("table-csv", "X", "save_csv", "Save as CSV"), Bind("table-json", "J", "save_json", "Save as JSON"))),
    KeyRow(("app",), "R", "record what you see, to replay it; again to stop", "record", 1,
           (Bind("record", "R", "record", "Record or stop"),)),
    KeyRow(("app",), "E", "write an incident report: text, picture, recording (zip)", "incident", 18,
           (Bind("incident", "E", "export_incident", "Incident report"),)),
    KeyRow(("app",), ": ctrl+p", "all commands with their keys, those you use most first", "", 9,
           (Bind("palette", "colon,ctrl+p", "command_palette"),)),
    KeyRow(("app",), "ctrl+z", "suspend wmtop; fg in the shell resumes it", "", 9,
           (Bind("suspend", "ctrl+z", "suspend_process"),)),
    KeyRow(("app",), "?", "this help", "help", 0, (Bind("help", "question_mark", "show_help", "Help"),)),
    KeyRow(("app",), "q", "quit", "quit", 2,
           (Bind("quit", "q", "leave", "Quit"), Bind("quit-always", "ctrl+q,ctrl+c", "leave", priority=True))),
    # A replay
    KeyRow(("replay",), "Space p", "play or pause; at the end, from the start", "play", 0,
           (Bind("play", "space,p", "play", "Play or pause"),)),
    KeyRow(("replay",), ", .", "one snapshot back or forward", "step", 1,
           (Bind("step-back", "comma", "step(-1)"), Bind("step-forward", "full_stop", "step(1)"))),
    KeyRow(("replay",), "< >", "slower or faster", "speed", 2,
           (Bind("slower", "less_than_sign", "speed(-1)"), Bind("faster", "greater_than_sign", "speed(1)"))),
    KeyRow(("replay",), "{ }", "back or forward by a twentieth (shift+← →); click or drag on the timeline", "scrub", 5,
           (Bind("scrub-back", "left_curly_bracket,shift+left", "scrub(-1)"),
            Bind("scrub-forward", "right_curly_bracket,shift+right", "scrub(1)"))),
    KeyRow(("timeline",), "← →", "in the timeline (Tab, or a click): back or forward; Home, End: its ends", "", 9,
           (Bind("timeline-back", "left", "app.scrub(-1)"), Bind("timeline-forward", "right", "app.scrub(1)"),
            Bind("timeline-first", "home", "app.scrub(-100)"), Bind("timeline-last", "end", "app.scrub(100)"))),
    KeyRow(("replay",), "n N", "next mark, previous mark: ◆ takeover, ━ stalled, ! many late", "marks", 3,
           (Bind("mark-next", "n", "mark(1)"), Bind("mark-previous", "N", "mark(-1)"))),
    KeyRow(("replay",), "G", "go to a time: 14:30, 02-08 14:30, +10m, -1h", "to a time", 4,
           (Bind("go-to", "G", "go_to", "Go to a time"),)),
    # The fleet
    KeyRow(("Fleet",), "↑ ↓ j k", "select a target"),
    KeyRow(("Fleet",), "Enter", "open the target; Esc there returns", "open", 0,
           (Bind("fleet-open", "enter", "open"),)),
    KeyRow(("Fleet",), "s", "sort by the next column; a click on a title sorts by it", "sort", 3,
           (Bind("fleet-sort", "s", "sort", "Sort the targets"),)),
    KeyRow(("Fleet",), "r", "reverse the order", "", 9, (Bind("fleet-reverse", "r", "reverse"),)),
    KeyRow(("Fleet",), "/", "filter the targets by a regular expression", "filter", 4,
           (Bind("fleet-filter", "slash", "filter", "Filter the targets"),)),
    KeyRow(("Fleet",), "Esc", "drop the filter", "", 9, (Bind("fleet-clear", "escape", "clear"),)),
    KeyRow(("Fleet",), "C", "where the topics and jobs lose event time, hop by hop", "chain", 2,
           (Bind("fleet-chain", "C", "app.chain", "Chain"),)),
    KeyRow(("Chain",), "↑ ↓ j k", "select a hop"),
    KeyRow(("Chain",), "Enter", "open the hop's target", "open", 0, (Bind("chain-open", "enter", "open"),)),
    KeyRow(("Chain",), "h", "in wmtop demo --chain: hold the hop, or let it go", "hold", 1,
           (Bind("chain-hold", "h", "hold"),)),
    KeyRow(("Chain",), "l", "in wmtop demo --chain: ten times Spark's delay, or restore it", "lateness ×10", 1,
           (Bind("chain-lateness", "l", "raise_lateness"),)),
    KeyRow(("Chain",), "Esc", "back to the fleet", "back", 0, (Bind("chain-back", "escape", "back"),)),
    # The further screens' own
    KeyRow(("Blockers",), "Enter", "the channel's page, or the windows", "open", 0,
           (Bind("blocker-open", "enter", "open"),)),
    KeyRow(("Windows",), "↑ ↓", "select a window; below is why it does not fire"),
    KeyRow(("Windows",), "Enter", "its page, channel by channel", "why", 0, (Bind("windows-open", "enter", "open"),)),
    KeyRow(("Window", "History"), "Enter", "the channel's page; without one the last late records", "channel", 0,
           (Bind("row-open", "enter", "open"),)),
    KeyRow(("Window", "Channel", "Doctor"), "L", "its last late records, and the line that fetches each",
           "late records", 2, (Bind("late-records", "L", "late_records"),)),
    KeyRow(("Channel",), "Enter", "its last late records", "", 9, (Bind("channel-late", "enter", "late_records"),)),
    KeyRow(("Channel",), "← →", "previous and next channel, most behind first", "other channels", 2,
           (Bind("channel-previous", "left", "other(-1)"), Bind("channel-next", "right", "other(1)"))),
    KeyRow(("Lateness",), "← →", "read the curve at another lateness", "read", 3,
           (Bind("edge-shorter", "left", "edge(-1)"), Bind("edge-longer", "right", "edge(1)"),
            Bind("edge-first", "home", "edge(-1000)"), Bind("edge-last", "end", "edge(1000)"))),
    KeyRow(("Lateness",), "r", "go to the recommended lateness", "recommended", 4,
           (Bind("recommended", "r", "recommended"),)),
    KeyRow(("Lateness",), "Enter", "preview the lateness (or the idle timeout) under the cursor", "preview", 0,
           (Bind("lateness-preview", "enter", "open"),)),
    KeyRow(("Lateness",), "↑ ↓", "all records, or one of the channels with most late ones", "channel", 5,
           (Bind("curve-previous", "up", "channel(-1)"), Bind("curve-next", "down", "channel(1)"))),
    KeyRow(("Lateness",), "H", "the last 15m, 1h, 24h, or all since the start", "horizon", 1,
           (Bind("horizon", "H", "horizon"),)),
    KeyRow(("Lateness",), "e", "who is late: values of the columns of --explain among late records and among all",
           "who is late", 2, (Bind("who-is-late", "e", "who"),)),
    KeyRow(("Lateness",), "i Tab", "the idle timeout instead, and back", "idle timeout", 2,
           (Bind("lateness-or-idle", "i,tab,shift+tab", "other", priority=True),)),
    KeyRow(("Time",), "z Z", "zoom in or out (also PgUp, PgDn)", "zoom", 2,
           (Bind("zoom-in", "z,pageup", "zoom(1)"), Bind("zoom-out", "Z,pagedown", "zoom(-1)"))),
    KeyRow(("Time",), "← → ↑ ↓", "move the picture", "move", 3,
           (Bind("move-left", "left", "move(-1, 0)"), Bind("move-right", "right", "move(1, 0)"),
            Bind("move-up", "up", "move(0, 1)"), Bind("move-down", "down", "move(0, -1)"))),
    KeyRow(("Time",), "End", "follow the clock again", "follow", 1, (Bind("follow", "end", "follow"),)),
    KeyRow(("Time",), "Home", "all that is kept", "", 9, (Bind("all-time", "home", "all"),)),
    KeyRow(("Time",), "Tab", "only the records of the next channel (shift+Tab: the previous one)", "channel", 3,
           (Bind("time-channel-next", "tab", "channel(1)"), Bind("time-channel-previous", "shift+tab", "channel(-1)"))),
    KeyRow(("Time",), "a", "the records of all channels", "all", 1, (Bind("time-all-channels", "a", "channels"),)),
    KeyRow(("Events",), "Enter", "its channel's page; in a recording go to its moment", "channel", 0,
           (Bind("event-open", "enter", "open"),)),
    KeyRow(("Operators",), "Enter", "open the channels inside; the channel's page", "channel", 2,
           (Bind("operators-open", "enter", "open"),)),
    KeyRow(("Doctor",), "Enter", "open the screen that shows it; Esc returns", "follow", 1,
           (Bind("finding-follow", "enter", "follow"),)),
    KeyRow(("Doctor",), "Space", "the finding on the whole screen; Esc: the list again", "alone", 3,
           (Bind("evidence", "space", "evidence"),)),
    KeyRow(("Doctor",), "v", "preview the setting that fixes it; Enter then applies it", "preview", 1,
           (Bind("fix", "v", "preview"),)),
)  # fmt: skip

_TEXTUAL = {
    "solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at", "hyphen_minus": "minus",
    "plus_sign": "plus", "low_line": "underscore",
}  # fmt: skip
"""Textual's names that are shorter than Unicode's."""
_UNICODE = {short: long for long, short in _TEXTUAL.items()}
_SPECIAL = {
    "up": "↑", "down": "↓", "left": "←", "right": "→", "enter": "Enter", "escape": "Esc", "space": "Space",
    "tab": "Tab", "home": "Home", "end": "End", "pageup": "PgUp", "pagedown": "PgDn", "insert": "Ins",
    "delete": "Del", "backspace": "Backspace", **{f"f{number}": f"F{number}" for number in range(1, 13)},
}  # fmt: skip
_MODIFIED = re.compile(r"(?:(?:ctrl|shift|alt)\+)+")


def key_name(key: str) -> str:
    """Textual's name of a key given by its character or name; ValueError for anything else."""
    prefix = match[0] if (match := _MODIFIED.match(key)) else ""
    rest = key[len(prefix) :]
    if len(rest) == 1:
        long = re.sub(r"[ -]", "_", unicodedata.name(rest, "").lower())
        return prefix + (rest if rest.isalnum() else _TEXTUAL.get(long, long))
    if rest in _SPECIAL or _character(rest) is not None:
        return prefix + rest
    raise ValueError(f"'{key}' is not a key, e.g. x, +, f2, ctrl+r, space")


def key_label(name: str) -> str:
    """The label of a key, given Textual's name, for footers and help."""
    prefix = match[0] if (match := _MODIFIED.match(name)) else ""
    rest = name[len(prefix) :]
    return prefix + (_SPECIAL.get(rest) or _character(rest) or rest)


def _character(name: str) -> str | None:
    if len(name) == 1:
        return name
    long = _UNICODE.get(name, name).replace("hyphen_minus", "hyphen-minus").replace("less_than", "less-than")
    try:
        return unicodedata.lookup(long.replace("greater_than", "greater-than").replace("_", " ").upper())
    except KeyError:
        return None


NOT_IN_REPLAY = frozenset({"apply", "undo", "freeze", "record"})
"""Keys, by name, that a replay does not have."""

BY_NAME = {bind.name: (row, bind) for row in ROWS for bind in row.binds}
"""Every key with its row, by its name in a configuration file."""
_chosen: dict[str, str] = {}
"""The configured keys, by name."""


def use_keys(chosen: Mapping[str, str]) -> None:
    """Give actions other keys (by `Bind.name`; by character or Textual's name): footers and help show them."""
    _chosen.clear()
    _chosen.update({name: key_name(key) for name, key in chosen.items()})


def chosen_keys() -> dict[str, str]:
    """The other keys by `Bind.name`, as Textual names them."""
    return dict(_chosen)


def check_keys(chosen: Mapping[str, str], among: Mapping[str, str]) -> None:
    """ValueError where a key of `chosen` already has another action in the same place, `among` being all other keys."""
    for name, key in chosen.items():
        wanted = key_name(key)
        row, own = BY_NAME[name]
        for other_row, other in BY_NAME.values():
            taken = key_name(among[other.name]) if other.name in among else other.key
            if other is not own and wanted in taken.split(",") and _meet(row.places, other_row.places):
                raise ValueError(f"{name} = '{key}': that key already has the action {other.name}; choose another key")


def links() -> list[Link]:
    """`LINKS` with the keys in force."""
    return [
        replace(link, key=key_label(_chosen[link.name.lower()])) if link.name.lower() in _chosen else link
        for link in LINKS
    ]


def _meet(ones: tuple[Place, ...], others: tuple[Place, ...]) -> bool:
    """Whether there is a screen on which keys of both places work."""

    def around(one: Place, other: Place) -> bool:
        if other == "list":
            return one in ("app", "replay", "main", "detail", "Fleet", *LISTS)
        return one == "app" or (one == "replay" and other != "app") or (one == "detail" and other[0].isupper())

    return any(one == other or around(one, other) or around(other, one) for one in ones for other in others)


def _in_force(row: KeyRow) -> KeyRow:
    """The row with the keys that its actions have now."""
    if not any(bind.name in _chosen for bind in row.binds):
        return row
    keys = [key_label(_chosen.get(bind.name, bind.key).split(",")[0]) for bind in row.binds]
    return replace(row, shown=" ".join(keys))


def binds(*places: Place) -> list[Bind]:
    """The keys that work at the places, in the order of the table."""
    return [bind for row in ROWS if not set(places).isdisjoint(row.places) for bind in row.binds]


def rows(*places: Place, denied: frozenset[str] = frozenset(), replay: bool = False) -> list[KeyRow]:
    """The rows of the help for the places; without denied actions, and those that a replay does not have."""
    return [
        _in_force(row)
        for row in ROWS
        if not set(places).isdisjoint(row.places)
        and denied.isdisjoint(bind.action for bind in row.binds)
        and not (replay and any(bind.name in NOT_IN_REPLAY for bind in row.binds))
    ]


def hint(name: str, label: str | None = None, rank: int | None = None) -> Hint:
    """The footer's hint for the row that has the key `name`, with another label or rank where the state asks for it."""
    row, bind = BY_NAME[name]
    row = _in_force(row)
    owner = "" if set(row.places).isdisjoint(("app", "replay")) else "app."
    keys = row.shown.replace("+ -", "+/-").replace("← → ↑ ↓", "←→↑↓").replace("← →", "←→").replace("↑ ↓", "↑↓")
    return Hint(keys, row.label if label is None else label, owner + bind.action, row.rank if rank is None else rank)


_WHERE = {
    "main": "on the main screen",
    "replay": "in a replay",
    "list": "in lists",
    "timeline": "in a replay's timeline",
}


def where_it_works(key: str, *, replay: bool = False) -> str:
    """Where a key, by Textual's name, that has no effect here does work; `replay`: a recording is shown."""
    found = [(row, bind) for row, bind in BY_NAME.values() if key in _chosen.get(bind.name, bind.key).split(",")]
    label = key_label(key)
    if not found:
        return f"{label} has no action; {hint('help').keys} lists the keys"
    row, bind = found[0]
    does = f"{label} ({bind.title or row.label or row.help})"
    if replay and bind.name in NOT_IN_REPLAY:
        return f"{does} is not available in a replay"
    if "app" in row.places:
        return f"{does} is not available here"
    names = {place for row, _ in found for place in row.places if place[0].isupper()}
    where = [_WHERE[place] for place in _WHERE if any(place in row.places for row, _ in found)]
    if "detail" in row.places:
        where = ["on a target's screens"]
    elif names:
        where.append(f"on {', '.join(sorted(names))}")
    return f"{does} works {' and '.join(where)}"


def palette(*places: Place, replay: bool = False) -> list[tuple[str, str, str]]:
    """The commands of the palette at the places, screens first: title, help with the key, action."""
    screens = {link.name for link in LINKS}
    found = [
        (bind.title, f"{key_label(_chosen.get(bind.name, bind.key).split(',')[0])}  {about}", bind.action)
        for name, (row, bind) in BY_NAME.items()
        for about in [row.help.removeprefix(f"{bind.title}: ")]
        if bind.title and not set(places).isdisjoint(row.places) and not (replay and name in NOT_IN_REPLAY)
    ]
    return sorted(found, key=lambda command: command[0] not in screens)
