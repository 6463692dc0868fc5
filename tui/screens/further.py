"""The further screens by name: which class each one is."""

from .detail import DetailScreen
from .windows import WindowsScreen

FURTHER: dict[str, type[DetailScreen]] = {screen.NAME: screen for screen in (WindowsScreen,)}
