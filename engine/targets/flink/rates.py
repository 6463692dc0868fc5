"""The rates at which a vertex reads and sends records: sums over its subtasks, computed by the JobManager. Pure."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from .metrics import OPERATOR_SEPARATOR, operator_id
from .samples import Rates, Vertex

_IN, _OUT = "numRecordsInPerSecond", "numRecordsOutPerSecond"
_PENDING, _LATE = "pendingRecords", "numLateRecordsDropped"


class RateNames(Struct, frozen=True):
    """The metrics for a vertex's rates; of several for one rate the greatest sum counts."""

    taken: tuple[str, ...] = ()
    sent: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()

    def all(self) -> list[str]:
        """All of them."""
        return [*self.taken, *self.sent, *self.pending]


def rate_names(vertex: Vertex, listed: Iterable[str]) -> RateNames:
    """The names, of all metric ids of the vertex.

    A source reads what its first operator does (its task counts no records in); a vertex with windows sends what they
    fire (a sink in the same chain has no records out).
    """
    there = {one.partition(".")[2] for one in listed}
    source = operator_id(vertex.name.partition(OPERATOR_SEPARATOR)[0])
    windows = sorted(one.removesuffix(f".{_LATE}") for one in there if one.endswith(f".{_LATE}"))
    taken = [f"{source}.{_IN}", f"{source}.{_OUT}"] if not vertex.inputs else [_IN]
    sent = [f"{windows[-1]}.{_OUT}"] if windows else [_OUT]
    pending = [f"{source}.{_PENDING}"] if not vertex.inputs else []
    return RateNames(*(tuple(name for name in names if name in there) for names in (taken, sent, pending)))


def rates_of(names: RateNames, sums: Mapping[str, float]) -> Rates:
    """The rates from the sums; None if a metric is missing."""
    taken, sent, pending = (
        max((sums[name] for name in group if name in sums), default=None)
        for group in (names.taken, names.sent, names.pending)
    )
    return Rates(taken, sent, None if pending is None else int(pending))
