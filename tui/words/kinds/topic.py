"""The words for a topic or a consumer group, whose watermark is computed here. Pure."""

from shlex import quote

from ....engine.text import formatting as f
from ....engine.verdict.blame import holding_view
from ..preview import Preview
from ..spans import Part, part
from ..watermark import delay_words
from .presenter import Presenter


class TopicWords(Presenter):
    """A topic, whose watermark is computed here."""

    def kind_name(self) -> str:
        return "Kafka topic"

    def no_advice(self, name: str, address: str, *, recorded: bool) -> list[str]:
        return advice_by_reading(name, None if recorded else address)

    def _all_read(self) -> bool:
        view = holding_view(self._snapshot)
        return view is not None and view.backlog == 0

    def _settings(self, preview: Preview | None) -> list[Part]:
        settings = self._snapshot.settings
        return [
            self._lateness("lateness", delay_words(settings.lateness_ms), preview),
            part(("assumed here", "dim"), rank=6, gap=" "),
            part(("idle after ", "dim"), (f.setting(settings.idle_after_ms), "strong"), rank=4),
        ]


class GroupWords(TopicWords):
    """A consumer group."""

    def kind_name(self) -> str:
        return "consumer group"


def advice_by_reading(name: str, address: str | None) -> list[str]:
    """Why the positions in a topic are no evidence, and how to collect it; `address` is `kafka://BROKERS/TOPIC`."""
    bootstrap, _, topic = (address or "").removeprefix("kafka://").partition("/")
    bootstrap = bootstrap or "BOOTSTRAP"
    topic = topic or "TOPIC"
    return [
        f"{name}: only positions are known of a topic, not how late its records are. Read it once:",
        f"  wmtop run kafka {quote(bootstrap)} {quote(topic)} --time PATH --once --record {topic}.rec",
        f"  wmtop advise {topic}.rec --horizon all",
    ]
