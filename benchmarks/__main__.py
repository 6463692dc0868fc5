"""`make bench`: all benchmarks, or those named."""

import importlib
import sys
import time

NAMES = (
    "tick",
    "doctor",
    "floor",
    "throughput",
    "variants",
    "aggregation",
    "kafka",
    "latency",
    "balance",
    "late",
    "taps",
    "ordinary_job",
    "start",
    "paint",
    "screen",
    "replay",
    "cluster",
    "flink",
    "flink_attach",
    "store",
)


def main(names: list[str]) -> None:
    """Run them one after the other; each prints its table."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        sys.exit(f"no benchmark {unknown[0]}; choose from {', '.join(NAMES)}")
    took: dict[str, float] = {}
    for name in names or NAMES:
        print(f"\n## {name}\n", flush=True)
        began = time.monotonic()
        importlib.import_module(f"benchmarks.{name}").main()
        took[name] = time.monotonic() - began
    parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in took.items())
    print(f"\n{sum(took.values()) / 60:.1f} minutes: {parts}")


if __name__ == "__main__":
    main(sys.argv[1:])
