"""What a target's app writes: a recording; an incident as Markdown, picture, and recording of the last minutes."""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from textual.screen import Screen

from ...engine.feed.messages import Header, decode_from_engine, encode, encode_line
from ...engine.feed.recording_reader import RecordingReader
from ...engine.feed.recording_writer import UNBOUNDED, BackgroundWriter, RecordingWriter
from ...engine.feed.redaction import Redaction
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError, UsageError
from ...engine.system.files import PrivateDirectory, check_new, check_outputs, written_whole
from ...engine.system.zstd import Frames, compress
from ...engine.verdict.history import HistoryPoint, history_point
from ..words.history import brief_ms, log_of
from ..words.progress import Playback
from ..words.recent import Recent
from ..words.state import Lost
from ..words.summary import PICTURE, RECORDING, SNAPSHOT, TEXT, Case, Clip, markdown
from ..words.texts import recorded
from .base_app import BaseApp, file_name, free_file, self_contained

CLIP_MS = 300_000
"""Length (ms of wall clock) of the recording before the moment."""
MIN_SNAPSHOTS = 60
"""Snapshots in the recording, at least, if there are as many."""
MAX_BYTES = 32 << 20
"""Memory (bytes, compressed) of all snapshots kept for an incident, at most; 300 of 1,000 channels have 8 MB."""
_SIZE = (120, 36)
_GONE = "The engine is gone; this is its last snapshot"


class Recorder:
    """One recording at a time, written by a thread of its own; `path` is its file while there is one."""

    path: Path | None = None
    _writer: BackgroundWriter | None = None

    def start(self, header: Header, snapshot: Snapshot, directory: Path, now: datetime) -> Path:
        """Start a new file in `directory` with `snapshot`; UsageError or RunError in one line."""
        path = free_file(directory, f"wmtop-{file_name(header.name)}-{now:%Y%m%d-%H%M%S}", ".rec")
        self._writer = BackgroundWriter(RecordingWriter(path, replace(header, history=[])))
        self.path = path
        self.add(snapshot)
        return path

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot if there is a recording, without those of the start; RunError, once, ends it."""
        if self._writer is not None and snapshot.state != "starting":
            try:
                self._writer.append(snapshot)
            except RunError:
                self.path = self._writer = None
                raise

    def take(self) -> Callable[[], str]:
        """End the recording in progress: a new one may start while the caller runs the function returned.

        It writes waiting snapshots and closes the file, which may take a while; a line for the user, or RunError.
        """
        path, writer = self.path, self._writer
        assert writer is not None
        self.path = self._writer = None

        def finish() -> str:
            writer.close()
            skipped = f" ({writer.skipped:,} snapshots skipped: the disk was too slow)" if writer.skipped else ""
            return recorded(path, skipped)

        return finish


class Incident(Struct, frozen=True, kw_only=True):
    """What is exported: the last snapshot, those of the minutes before it, and the history of the run (all of it)."""

    header: Header
    snapshots: Sequence[Snapshot]
    """The snapshots, at least one; the last one is the moment."""
    points: Sequence[HistoryPoint]
    lost: str | None = None
    playback: Playback | None = None
    """The moment's place in its recording; None: a running engine."""
    redacted: bool = False


class LastMinutes:
    """The snapshots of the last minutes, within bounds of time and memory; a thread of its own compresses them."""

    def __init__(self) -> None:
        # With the time of each, and compressed: as objects they have twenty times the size, hundreds of MB.
        self._lines: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._worker = ThreadPoolExecutor(1, "wmtop-minutes")  # one: it keeps the order, and alone changes the lines
        self._newest: Future[None] | None = None

    def add(self, snapshot: Snapshot) -> None:
        """Keep one, and drop what is too old."""
        if snapshot.wall_ms is None or snapshot.state == "starting":
            return
        if self._newest is not None and self._newest.done():
            self._newest.result()  # raises what keeping it raised
        self._newest = self._worker.submit(self._keep, snapshot, snapshot.wall_ms)

    def close(self) -> None:
        """End the thread: while it lives, it keeps the app in which it was started."""
        self._worker.shutdown(cancel_futures=True)

    def until(self, snapshot: Snapshot) -> list[Snapshot]:
        """The snapshots up to and including the given one; thread-safe, as decoding them takes a while."""
        kept = self._worker.submit(list, self._lines).result()  # after all that were added
        lines = [line for wall_ms, line in kept if wall_ms < (snapshot.wall_ms or 0)]
        before = (decode_from_engine(b"".join(Frames().feed(line))) for line in lines)
        return [*(one for one in before if isinstance(one, Snapshot)), snapshot]

    def _keep(self, snapshot: Snapshot, wall_ms: int) -> None:
        kept, line = self._lines, compress(encode_line(snapshot), 1)
        kept.append((wall_ms, line))
        self._size += len(line)
        while (len(kept) > MIN_SNAPSHOTS and wall_ms - kept[0][0] > CLIP_MS) or (
            len(kept) > 1 and self._size > MAX_BYTES
        ):
            self._size -= len(kept.popleft()[1])


def incident_of(reader: RecordingReader, number: int) -> Incident:
    """The incident at a snapshot of a recording."""
    points = [point for point in reader.points[: number + 1] if point is not None]
    here = reader.points[number]
    first = number
    while first > 0:
        before = reader.points[first - 1]
        old = here is not None and before is not None and here.wall_ms - before.wall_ms > CLIP_MS
        if old and number - first >= MIN_SNAPSHOTS - 1:
            break
        first -= 1
    snapshots = [reader.at(place) for place in range(first, number + 1)]
    note = "Not closed (killed, or still being written)" if reader.truncated else None
    playback = Playback(number, len(reader), playing=False, speed=1.0, note=note)
    return Incident(header=reader.header, snapshots=snapshots, points=points, playback=playback)


def redacted(incident: Incident) -> Incident:
    """The incident without names: each channel has the same substitute in text, picture and recording."""
    redaction = Redaction()
    redaction.snapshot(incident.snapshots[-1])  # so that source instances keep their `#0` in the history, too
    header = redaction.header(replace(incident.header, history=list(incident.points)))
    return replace(
        incident,
        header=header,
        snapshots=[redaction.snapshot(snapshot) for snapshot in incident.snapshots],
        points=header.history,
        lost=None if incident.lost is None else _GONE,
        redacted=True,
    )


def check_target(out: Path, inputs: Sequence[Path], *, force: bool) -> None:
    """UsageError if `out` (a `.zip`, else a directory) must not be written."""
    if out.suffix.lower() == ".zip":
        check_outputs({"-o": out}, inputs=inputs, force=force)
    elif out.exists() and not out.is_dir():
        raise UsageError(f"-o {out} is not a directory; give a name that ends in .zip, or a directory")
    elif out.exists() and not force:
        raise UsageError(f"-o {out} already exists; choose another name or pass --force")
    else:
        for name in (TEXT, PICTURE, RECORDING, SNAPSHOT):
            check_outputs({"-o": out / name}, inputs=inputs, force=force)
    if not out.absolute().parent.is_dir():
        raise UsageError(f"-o {out}: there is no directory {out.parent}; create it first")


def write_incident(
    incident: Incident, out: Path, *, force: bool = False, step: Callable[[str], object] = lambda text: None
) -> None:
    """Write the incident to `out`, a zip or a directory, which is whole or not there; `step` gets what is being done.

    Not from within an event loop. UsageError if it exists and `force` is not given; RunError where the disk is full.
    """
    is_zip = out.suffix.lower() == ".zip"
    try:
        # A directory is made where it can be renamed to its place.
        where = None if is_zip else out if out.is_dir() else out.absolute().parent
        files = PrivateDirectory(".wmtop-incident-", where)
        try:
            made = files.path / "report"  # with the permissions of a new directory
            made.mkdir()
            _write_files(incident, made, step)
            step("writing")
            write = _write_zip if is_zip else _move_directory
            write(made, out, force=force)
        finally:
            files.remove()
    except OSError as error:
        raise RunError(f"cannot write {out}: {error.strerror or error}") from error


def write_new(incident: Incident, directory: Path, now: datetime) -> Path:
    """Write the incident to a new zip in `directory`; where it is. Errors as `write_incident`."""
    name = f"wmtop-{file_name(incident.snapshots[-1].name)}-incident-{now:%Y%m%d-%H%M%S}"
    out = free_file(directory, name, ".zip")
    write_incident(incident, out)
    return out


def _write_files(incident: Incident, into: Path, step: Callable[[str], object]) -> None:
    last = incident.snapshots[-1]
    step("drawing the main screen")
    (into / PICTURE).write_text(picture(incident), encoding="utf-8")
    step("writing the recording")
    header = replace(incident.header, history=[], points=[])
    with RecordingWriter(into / RECORDING, header, UNBOUNDED) as writer:
        for snapshot in incident.snapshots:
            writer.append(snapshot)
    (into / SNAPSHOT).write_bytes(msgspec.json.format(encode(last), indent=1))
    (into / TEXT).write_text(markdown(_case(incident)), encoding="utf-8")


def _case(incident: Incident) -> Case:
    last = incident.snapshots[-1]
    walls = [snapshot.wall_ms for snapshot in incident.snapshots if snapshot.wall_ms is not None] or [None]
    log = log_of(incident.points, last)
    if incident.lost is not None:
        log.lose(walls[-1] or 0, incident.lost)
    return Case(
        snapshot=last,
        past=_recent(incident).until(last),
        events=log.events(None, brief_ms(last)),
        clip=Clip(len(incident.snapshots), walls[0], walls[-1]),
        versions=versions_of(last),
        written_ms=time.time_ns() // 1_000_000,
        lost=incident.lost,
        redacted=incident.redacted,
        recorded=incident.playback is not None,
    )


def _recent(incident: Incident) -> Recent:
    """The history that a screen would have at that moment."""
    recent = Recent(incident.points)
    last = history_point(incident.snapshots[-1])
    if last is not None and (not incident.points or incident.points[-1].wall_ms < last.wall_ms):
        recent.add(incident.snapshots[-1])
    return recent


def versions_of(snapshot: Snapshot) -> list[tuple[str, str]]:
    """The relevant versions; Spark's only for a run of this wmtop, which started it."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    def installed(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "not installed here"

    return [
        ("wmtop", installed("wmtop")),
        ("Python", sys.version.split()[0]),
        ("Spark", installed("pyspark") if not snapshot.is_attached else "not known from here"),
        ("Textual", installed("textual")),
        ("platform", platform.platform()),
    ]


class PictureApp(BaseApp[None]):
    """The main screen on one moment, without a terminal."""

    def __init__(self, incident: Incident) -> None:
        from .main import MainScreen

        super().__init__(None)
        self._main = MainScreen(incident.snapshots[-1], _recent(incident), lambda: 0.0)
        self._incident = incident

    def get_default_screen(self) -> Screen[Any]:
        return self._main

    def on_mount(self) -> None:
        if self._incident.playback is not None:
            self._main.play(self._incident.playback)
        if self._incident.lost is not None:
            self._main.lose(Lost(self._incident.lost))


def picture(incident: Incident) -> str:
    """The main screen as SVG. Not from within an event loop."""

    async def draw() -> str:
        app = PictureApp(incident)
        async with app.run_test(size=_SIZE) as pilot:
            await pilot.pause()
            await pilot.pause(0.1)  # the rules are drawn after the first layout
            return self_contained(app.export_screenshot(title=f"wmtop {incident.snapshots[-1].name}"))

    return asyncio.run(draw())


def _write_zip(files: Path, out: Path, *, force: bool) -> None:
    """Write the files to a zip, which is whole or not there."""
    import zipfile

    with written_whole(out, "-o", force=force) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files.iterdir()):
            archive.write(path, f"{out.stem}/{path.name}")


def _move_directory(files: Path, out: Path, *, force: bool) -> None:
    """Make the files `out`; where it exists, its other files stay, and each of these is replaced in one step."""
    if not out.is_dir():
        files.rename(out)
        return
    for path in sorted(files.iterdir()):
        check_new(out / path.name, "-o", force=force)
        path.replace(out / path.name)
