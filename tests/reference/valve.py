"""Sections 3 and 4: the valve, the multiplexer of one source instance, and what vectors see behind them."""

from dataclasses import dataclass
from typing import Any

from wmtop.engine.watermarks.times import MAX, MIN

Emission = tuple[Any, ...]
"""`("w", ts)`, `("idle",)` or `("active",)`."""


class Valve:
    """Section 3, point by point. Every method returns what the valve emitted."""

    def __init__(self) -> None:
        self.watermark: dict[Any, int] = {}
        self.status: dict[Any, str] = {}
        self.aligned: dict[Any, bool] = {}
        self.output = MIN
        self.idle = False

    def _emit(self, watermark: int) -> list[Emission]:
        if watermark <= self.output:
            return []
        self.output = watermark
        return [("w", watermark)]

    def _derive(self) -> list[Emission]:
        unfinished = [c for c in self.status if self.status[c] != "finished"]
        if self.status and not unfinished:
            return self._emit(MAX)
        aligned = [self.watermark[c] for c in unfinished if self.aligned[c]]
        return self._emit(min(aligned)) if aligned else []

    def _settle(self) -> list[Emission]:
        """Point 3's second half: nobody active is the flush, else the minimum."""
        unfinished = [c for c in self.status if self.status[c] != "finished"]
        if any(self.status[c] == "active" for c in unfinished) or not unfinished:
            return self._derive()
        emitted = self._emit(max(self.watermark[c] for c in unfinished))
        if not self.idle:
            self.idle = True
            emitted.append(("idle",))
        return emitted

    def _wake(self) -> list[Emission]:
        was, self.idle = self.idle, False
        return [("active",)] if was else []

    def add(self, channel: Any) -> list[Emission]:
        assert channel not in self.status
        self.watermark[channel], self.status[channel], self.aligned[channel] = MIN, "active", True
        return [*self._wake(), *self._derive()]

    def remove(self, channel: Any) -> list[Emission]:
        del self.watermark[channel], self.status[channel], self.aligned[channel]
        return self._settle() if self.status else []

    def input(self, channel: Any, watermark: int) -> list[Emission]:
        if self.idle or self.status[channel] != "active" or watermark <= self.watermark[channel]:
            return []
        self.watermark[channel] = watermark
        if not self.aligned[channel] and watermark >= self.output:
            self.aligned[channel] = True
        return self._derive()

    def mark_idle(self, channel: Any) -> list[Emission]:
        if self.status[channel] != "active":
            return []
        self.status[channel], self.aligned[channel] = "idle", False
        return self._settle()

    def mark_active(self, channel: Any) -> list[Emission]:
        if self.status[channel] != "idle":
            return []
        self.status[channel] = "active"
        self.aligned[channel] = self.watermark[channel] >= self.output
        return [*self._wake(), *self._derive()]

    def finish(self, channel: Any) -> list[Emission]:
        self.status[channel], self.aligned[channel] = "finished", False
        return self._settle()


@dataclass
class Split:
    watermark: int = MIN
    idle: bool = False

    def send(self, watermark: int) -> bool:
        self.idle = False
        grew = watermark > self.watermark
        self.watermark = max(self.watermark, watermark)
        return grew


class Multiplexer:
    """Section 4: the splits of one source instance. `update` recombines and returns the calls on its output."""

    def __init__(self) -> None:
        self.splits: dict[Any, Split] = {}
        self.combined = MIN

    def register(self, split: Any) -> None:
        if split in self.splits:
            raise ValueError(split)
        self.splits[split] = Split()

    def update(self) -> list[Emission]:
        if not self.splits:
            return []
        active = [s.watermark for s in self.splits.values() if not s.idle]
        combined = min(active) if active else max(s.watermark for s in self.splits.values())
        calls: list[Emission] = []
        if combined > self.combined:
            self.combined = combined
            calls.append(("w", combined))
        if not active:
            calls.append(("idle",))
        return calls

    def send_now(self, split: Any, watermark: int) -> list[Emission]:
        grew = self.splits[split].send(watermark)
        return self.update() if grew and watermark > self.combined else []

    def status_now(self, split: Any, idle: bool) -> list[Emission]:
        self.splits[split].idle = idle
        return self.update()


@dataclass
class GrowthFilter:
    """What a vector's `expect_downstream` sees: no repeats, and awake again only with a watermark that grows."""

    watermark: int = MIN
    idle: bool = False

    def through(self, calls: list[Emission]) -> list[Emission]:
        out: list[Emission] = []
        for call in calls:
            if call[0] == "w" and call[1] > self.watermark:
                self.watermark = call[1]
                if self.idle:
                    out.append(("active",))
                self.idle = False
                out.append(call)
            elif call == ("idle",) and not self.idle:
                self.idle = True
                out.append(call)
        return out
