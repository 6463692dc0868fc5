"""What the soak calls flat, and its plot."""

from pathlib import Path
from xml.etree import ElementTree

from .flat import fit, plot

HOUR = [(float(second), 100.0) for second in range(0, 3_600, 60)]


def test_what_grows_after_its_start_is_not_flat() -> None:
    warm = [(at, 50.0 if at < 600 else value) for at, value in HOUR]
    leaks = [(at, value + at / 100) for at, value in HOUR]
    falls = [(at, value - at / 100) for at, value in HOUR]
    found = [fit(points, 8.0, 0.05) for points in (HOUR, warm, leaks, falls)]
    assert [each is not None and each.is_flat for each in found] == [True, True, False, True]
    assert found[2] is not None
    assert round(found[2].per_hour) == 36


def test_a_few_points_say_nothing() -> None:
    assert fit(HOUR[:5], 8.0, 0.05) is None
    assert fit([], 8.0, 0.05) is None


def test_the_plot_has_a_line_for_each_process(tmp_path: Path) -> None:
    plot(tmp_path / "a.svg", "a <run>", [("memory", {"engine": HOUR, "JVM": HOUR}), ("heap", {"JVM": HOUR})])
    drawn = ElementTree.parse(tmp_path / "a.svg").getroot()  # noqa: S314 - our own
    assert len([each for each in drawn.iter() if each.tag.endswith("polyline")]) == 3
