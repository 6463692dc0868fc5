"""The further screens by name: which class each one is."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from .detail import DetailScreen

_CLASSES = {
    "Blockers": ".blockers:BlockersScreen",
    "Windows": ".windows:WindowsScreen",
    "Lateness": ".lateness:LatenessScreen",
    "Time": ".time:TimeScreen",
    "Operators": ".operators:OperatorsScreen",
    "Progress": ".progress:ProgressScreen",
    "Doctor": ".doctor:DoctorScreen",
    "History": ".history:HistoryScreen",
    "Events": ".events:EventsScreen",
    "Who is late": ".late_records:WhoIsLateScreen",
}


class _Further(Mapping[str, type[DetailScreen]]):
    """Imports a screen when it is first asked for: the first paint needs none of them."""

    def __getitem__(self, name: str) -> type[DetailScreen]:
        module, _, attribute = _CLASSES[name].partition(":")
        return getattr(import_module(module, __package__), attribute)

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


FURTHER: Mapping[str, type[DetailScreen]] = _Further()
