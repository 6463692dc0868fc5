"""`make bench`: the benchmarks that have a goal of speed, or those named."""

import importlib
import sys
import time
import traceback

NAMES = (
    "tick",
    "floor",
    "throughput",
    "variants",
    "aggregation",
    "kafka",
    "latency",
    "late",
    "start",
    "paint",
    "screen",
    "cluster",
    "flink",
    "flink_kafka",
)
"""What has a goal of speed: 28 minutes on two cores."""
OTHERS = ("doctor", "balance", "taps", "ordinary_job", "replay", "flink_attach", "store")
"""Run by name only."""


def main(names: list[str]) -> None:
    """Run them one after the other; each prints its table."""
    unknown = [name for name in names if name not in (*NAMES, *OTHERS)]
    if unknown:
        sys.exit(f"no benchmark {unknown[0]}; choose from {', '.join((*NAMES, *OTHERS))}")
    took: dict[str, float] = {}
    failed: list[str] = []
    for name in names or NAMES:
        print(f"\n## {name}\n", flush=True)
        began = time.monotonic()
        try:
            importlib.import_module(f"benchmarks.{name}").main()
        except (Exception, SystemExit):  # noqa: BLE001 - the others still run
            traceback.print_exc()
            failed.append(name)
        took[name] = time.monotonic() - began
    parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in took.items())
    print(f"\n{sum(took.values()) / 60:.1f} minutes: {parts}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
