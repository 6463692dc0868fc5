"""The examples in the help of each command."""

EXAMPLES = {
    "": (
        "wmtop",
        "wmtop demo",
        "wmtop run replay flights.parquet --time scheduled",
        "wmtop attach /data/orders/checkpoint",
    ),
    "demo": ("wmtop demo", "wmtop demo --speed 1200", "wmtop demo --kafka", "wmtop demo --chain"),
    "run": (
        "wmtop run replay flights.parquet --time scheduled --channel carrier",
        "wmtop run kafka localhost:9092 orders --time created_at",
    ),
    "run replay": (
        "wmtop run replay flights.parquet --time scheduled --channel carrier --arrival arrived --lateness 45m",
        "wmtop run replay day1.csv day2.csv --time ts --time-unit s --speed 60 --record run.rec",
        "wmtop run replay 's3://lake/events/day=*/*.parquet' --time ts --arrival received --once --json",
        "wmtop run replay events.parquet --time ts --arrival received --once --late-output late",
        "wmtop run replay late --time wmtop_time_ms --time-unit ms --channel wmtop_channel --strategy none --once",
    ),
    "run files": (
        "wmtop run files incoming --time ts --channel device",
        "wmtop run files incoming --format json --time created_at --window 5m",
    ),
    "run kafka": (
        "wmtop run kafka localhost:9092 orders --time payload.created_at --lateness 30s --idle-after 5m",
        "wmtop run kafka broker:9093 orders --kafka-config client.properties --from latest",
        "wmtop run kafka localhost:9092 orders --time created_at --state-dir state --late-output s3a://bucket/late",
    ),
    "run rate": ("wmtop run rate --channels 1000 --rows-per-second 20000", "wmtop run rate --rows 100000 --once"),
    "attach": (
        "wmtop attach",
        "wmtop attach /data/orders/checkpoint --bootstrap localhost:9092",
        "wmtop attach s3a://bucket/checkpoints/orders",
        "wmtop attach kafka://localhost:9092/orders --group billing",
        "wmtop attach flink://localhost:8081/orders",
    ),
    "check": (
        "wmtop check flights --for 1m",
        "wmtop check --all",
        "wmtop check run.rec --at 2013-02-08T14:30:00Z --json",
        "wmtop check --chain --fail-if 'chain.behind > 30m'",
    ),
    "watch": ("wmtop watch flights", "wmtop watch flink://localhost:8081/orders --every 10m >> orders.log"),
    "chain": ("wmtop chain", "wmtop chain pipeline.toml --json", "wmtop chain --record chain.rec --on-alert page-me"),
    "explain": ("wmtop explain", "wmtop explain silent-channels"),
    "export": (
        "wmtop export --all --prometheus :9464",
        "wmtop export orders flights --json",
        "wmtop export --dashboard > wmtop.json",
        "wmtop export --alert-rules > wmtop.yml",
    ),
    "advise": (
        "wmtop advise flights --target 99.9% --horizon 1h",
        "wmtop advise run.rec --horizon all --at 2013-02-08T14:30:00Z --json",
    ),
    "preview": (
        "wmtop preview flights --idle-after 2h",
        "wmtop preview run.rec --lateness 45m --at 2013-02-08T14:30:00Z --json",
    ),
    "replay": (
        "wmtop replay run.rec --speed 10",
        "wmtop replay run.rec --once --json --at 2013-02-08T14:30:00Z",
        "wmtop replay run.rec --redact shared.rec",
    ),
    "report": (
        "wmtop report flights -o incident.zip",
        "wmtop report run.rec --at 2013-02-08T14:30:00Z -o incident.zip --redact",
    ),
    "config": ("wmtop config", "wmtop --config wmtop.toml config", "wmtop config --keys"),
    "runs": ("wmtop runs",),
    "stop": ("wmtop stop flights",),
    "set": ("wmtop set flights --lateness 45m", "wmtop set flights --idle-after off"),
    "completion": (
        "wmtop completion bash > ~/.local/share/bash-completion/completions/wmtop",
        "wmtop completion zsh > ~/.zfunc/_wmtop",
        "wmtop completion fish > ~/.config/fish/completions/wmtop.fish",
    ),
    "serve": (
        "wmtop serve flights",
        "wmtop serve run.rec --port 9000",
        "wmtop serve flights --host 0.0.0.0 --allow-host wmtop.example.com",
    ),
}


def epilog(command: str) -> str:
    """The examples of a command, for its help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[command])
