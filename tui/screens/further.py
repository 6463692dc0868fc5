"""The further screens by name: which class each one is."""

from .blockers import BlockersScreen
from .detail import DetailScreen
from .doctor import DoctorScreen
from .events import EventsScreen
from .history import HistoryScreen
from .lateness import LatenessScreen
from .operators import OperatorsScreen
from .progress import ProgressScreen
from .time import TimeScreen
from .who_is_late import WhoIsLateScreen
from .windows import WindowsScreen

FURTHER: dict[str, type[DetailScreen]] = {
    screen.NAME: screen
    for screen in (
        BlockersScreen,
        WindowsScreen,
        LatenessScreen,
        TimeScreen,
        OperatorsScreen,
        ProgressScreen,
        DoctorScreen,
        HistoryScreen,
        EventsScreen,
        WhoIsLateScreen,
    )
}
