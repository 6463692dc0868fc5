"""What a Spark checkpoint shows: watermark, offsets, open windows in its state store."""
