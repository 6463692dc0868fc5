"""The setting that is previewed."""

from msgspec import Struct

from . import formatting as f


class ProposedSetting(Struct, frozen=True):
    """The setting that is previewed: a lateness, or an idle timeout (None: off)."""

    idle: bool
    value_ms: int | None

    def words(self) -> str:
        """`lateness 45m`."""
        return f"{'idle timeout' if self.idle else 'lateness'} {f.setting(self.value_ms)}"
