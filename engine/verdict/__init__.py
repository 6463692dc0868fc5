"""The verdict on a run (semantics 11): snapshot, verdict, blockers, applied now, recommendation, alerts."""
