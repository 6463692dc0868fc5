"""Watermark strategies: how the generator of one channel responds to records and to the periodic emit.

A strategy is the frozen `Settings`; a generator is the state of one channel. Generators answer at lateness 0 and the
operator clock subtracts the lateness, so that one generator serves the run and every what-if. Source: Flink's
`eventtime` package (`BoundedOutOfOrdernessWatermarks`), and its older `BoundedOutOfOrdernessTimestampExtractor`.
"""

import importlib
import pickle
from collections import abc
from contextlib import contextmanager
from typing import Any, Protocol, assert_never, cast

from msgspec import Struct

from .observation import Sequence
from .settings import Settings
from .times import MIN


class CustomWatermarks(Protocol):
    """What `module:factory` returns for each channel: a picklable generator, times in epoch ms."""

    def on_event(self, timestamp: int) -> int | None:
        """Take one record; returns the watermark to emit at once, or None."""
        ...

    def on_periodic_emit(self) -> int | None:
        """The watermark to emit now, or None."""
        ...


class BoundedWatermarks(Struct, tag="bounded", gc=False, omit_defaults=True):
    """`max - 1`, or `max` for the legacy extractor (lateness 0)."""

    legacy: bool = False
    max_ms: int = MIN

    def on_event(self, timestamp: int) -> int | None:
        """Take one record; never emits at once."""
        self.max_ms = max(self.max_ms, timestamp)
        return None

    def on_periodic_emit(self) -> int | None:
        """The watermark (ms); `MIN` before the first record."""
        return self.max_ms if self.legacy or self.max_ms == MIN else self.max_ms - 1


class SmoothedWatermarks(Struct, tag="smoothed"):
    """`floor(mean(last N timestamps)) - 1`; it may go back: the output filters that, whatever the lateness."""

    size: int
    recent: list[int] = []

    def on_event(self, timestamp: int) -> int | None:
        """Take one record; never emits at once."""
        self.recent = [*self.recent, timestamp][-self.size :]
        return None

    def on_sequence(self, timestamps: list[int]) -> None:
        """Take a batch's last records, in source order."""
        self.recent = [*self.recent, *timestamps][-self.size :]

    def on_periodic_emit(self) -> int | None:
        """The watermark (ms); `MIN` before the first record."""
        return sum(self.recent) // len(self.recent) - 1 if self.recent else MIN


class SilentWatermarks(Struct, tag="silent"):
    """No periodic watermark: `punctuated` and `source` emit with their records, `none` never emits."""

    def on_event(self, timestamp: int) -> int | None:
        """Take one record; a watermark that it emits comes with the record."""
        return None

    def on_periodic_emit(self) -> int | None:
        """None: there is no periodic watermark."""
        return None


class CustomError(RuntimeError):
    """A user's generator raised an exception; the text is one line with its type."""


@contextmanager
def _named(method: str) -> abc.Generator[None]:
    """Name the method and the type of what a user's generator raises: a message alone may be one word."""
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split())
        raise CustomError(
            f"the strategy's {method} raised {type(error).__name__}{f': {text}' if text else ''}"
        ) from error


class CustomGenerator(Struct, tag="custom", dict=True):
    """A user's generator, kept pickled so that it can be saved and sent to the workers that read the records."""

    state: bytes

    def __post_init__(self) -> None:
        self._live: tuple[bytes, CustomWatermarks] | None = None

    def _user(self) -> CustomWatermarks:
        if self._live is None or self._live[0] is not self.state:
            self._live = (self.state, cast(CustomWatermarks, pickle.loads(self.state)))
        return self._live[1]

    def _save(self, user: CustomWatermarks) -> None:
        self.state = pickle.dumps(user)
        self._live = (self.state, user)

    def on_event(self, timestamp: int) -> int | None:
        """Take one record; returns what the user's generator emits at once."""
        user = self._user()
        with _named("on_event"):
            emitted = user.on_event(timestamp)
        self._save(user)
        return emitted

    def on_periodic_emit(self) -> int | None:
        """The watermark that the user's generator emits now."""
        user = self._user()
        with _named("on_periodic_emit"):
            emitted = user.on_periodic_emit()
        self._save(user)
        return emitted


Generator = BoundedWatermarks | SmoothedWatermarks | SilentWatermarks | CustomGenerator


def new_generator(settings: Settings) -> Generator:
    """A fresh generator of the strategy, for one channel."""
    match settings.strategy:
        case "bounded" | "monotonous" | "spark":
            return BoundedWatermarks()
        case "bounded-legacy":
            return BoundedWatermarks(legacy=True)
        case "smoothed":
            return SmoothedWatermarks(settings.smooth)
        case "punctuated" | "source" | "none":
            return SilentWatermarks()
        case "custom":
            return CustomGenerator(pickle.dumps(load_factory(settings.factory or "")()))
    assert_never(settings.strategy)


def belongs_to(generator: Generator, settings: Settings) -> bool:
    """Whether the generator is one of the strategy; a user's is not looked into."""
    if settings.strategy == "custom":
        return isinstance(generator, CustomGenerator)
    fresh = new_generator(settings)
    if isinstance(generator, BoundedWatermarks) and isinstance(fresh, BoundedWatermarks):
        return generator.legacy == fresh.legacy
    return type(generator) is type(fresh)


def load_factory(path: str) -> Any:
    """The callable at `module:factory`; ImportError, AttributeError or ValueError with the reason."""
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise ValueError(f"'{path}' is not module:factory")
    return getattr(importlib.import_module(module), name)


def absorb(generator: Generator, max_event_ms: int, emitted_ms: int | None, sequence: Sequence | None) -> int | None:
    """Pass a batch's records of a channel to its generator; returns the greatest watermark emitted, or None."""
    match generator:
        case BoundedWatermarks():
            return generator.on_event(max_event_ms)
        case SmoothedWatermarks():
            generator.on_sequence(sequence.timestamps if sequence else [max_event_ms])
            return None
        case SilentWatermarks():
            return emitted_ms
        case CustomGenerator():
            if sequence is None or sequence.state is None:
                return generator.on_event(max_event_ms)
            generator.state = sequence.state
            return sequence.emitted_ms
