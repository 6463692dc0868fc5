"""wmtop's engine: watermark semantics (core), the Spark pipeline, and the stream that screens read."""
