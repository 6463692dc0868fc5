"""The table of keys as Textual's bindings; a configuration uses their ids to assign other keys."""

from textual.binding import Binding, BindingType

from ..words.keys import Place, binds


def bindings(*places: Place) -> list[BindingType]:
    """The bindings of the places."""
    return [Binding(b.key, b.action, b.help, id=b.name, priority=b.priority) for b in binds(*places)]
