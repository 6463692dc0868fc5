"""Facts from a Spark checkpoint: watermark, offsets, open windows in its state store."""
