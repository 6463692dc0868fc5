"""The time of a process where its machine's clock is set."""

import pytest
from wmtop.engine.system.clock import SteadyClock

SECOND = 1_000_000_000
NOW = 1_700_000_000


class Machine:
    """Both clocks of a machine (s), and the time as a process has it."""

    def __init__(self) -> None:
        self.wall_s, self.elapsed_s = float(NOW), 50.0
        self.clock = SteadyClock(lambda: int(self.wall_s * SECOND), lambda: int(self.elapsed_s * SECOND))
        self.clock.now_ms()

    def passes(self, seconds: float, *, set_by_s: float = 0.0) -> float:
        """Let time pass, and set the wall clock; returns what the process has (s since the start)."""
        self.wall_s += seconds + set_by_s
        self.elapsed_s += seconds
        return self.clock.now_ms() / 1_000 - NOW


@pytest.mark.parametrize("set_by_s", [-86_400.0, -270.0, -2.0, 2.0, 3_600.0, 400 * 86_400.0])
def test_a_clock_that_is_set_changes_no_age(set_by_s: float) -> None:
    machine = Machine()
    assert machine.passes(10) == 10
    assert machine.passes(1, set_by_s=set_by_s) == 11
    assert machine.passes(60) == 71
    assert machine.clock.set_by_ms() == set_by_s * 1_000
    assert machine.passes(1, set_by_s=-set_by_s) == 72
    assert machine.clock.set_by_ms() == 0


def test_a_clock_that_is_slewed_is_followed() -> None:
    machine = Machine()
    for second in range(1, 601):
        assert machine.passes(1, set_by_s=0.05) == pytest.approx(second * 1.05, abs=0.002)
    assert machine.clock.set_by_ms() == 0


def test_the_time_never_goes_back() -> None:
    machine = Machine()
    last = machine.passes(0)
    for set_by_s in (-0.9, 0.5, -0.9, -0.9, 5, -0.9, -7):
        now = machine.passes(0.1, set_by_s=set_by_s)
        assert now >= last
        last = now
