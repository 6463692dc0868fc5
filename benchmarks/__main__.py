"""`make bench`: all benchmarks, or those named."""

import importlib
import sys
import time
import traceback

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
