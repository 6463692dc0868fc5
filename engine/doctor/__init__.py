"""Findings: problems of a stream, one module a topic with their rules and words; pure functions of snapshots."""

from importlib import import_module

from .finding import Finding, Fix, Offered, Severity, offered_by
from .rules import RULES, Diagnosis, Meaning, accounts_for, diagnose, explain, meaning_of

__all__ = [
    "RULES",
    "Diagnosis",
    "Finding",
    "Fix",
    "Meaning",
    "Offered",
    "Severity",
    "accounts_for",
    "diagnose",
    "explain",
    "meaning_of",
    "offered_by",
]

TOPICS = (
    "condition",
    "kinds.group",
    "blocking",
    "idleness",
    "kinds.spark",
    "kinds.flink",
    "kinds.kafka_streams",
    "progress",
    "kinds.chain",
    "clocks",
    "lateness",
    "batches",
)
"""The modules with rules; of findings of equal weight, those of an earlier topic are listed first."""

for _topic in TOPICS:
    import_module(f".{_topic}", __name__)
