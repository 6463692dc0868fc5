"""The judgement on a run (semantics 11): verdict, blockers, applied now, recent what-if."""
