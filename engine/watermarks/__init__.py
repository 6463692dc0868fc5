"""Pure watermark semantics: integers in, facts out; no Spark, no Textual, no clock, no I/O."""
