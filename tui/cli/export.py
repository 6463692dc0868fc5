"""`wmtop export`: exports targets to other tools: Prometheus, JSON lines; prints a dashboard and alert rules
for them.
"""

import signal
import threading
from typing import Annotated

import typer

from ...engine.system.errors import RunError, UsageError
from ...engine.targets.fleet import Watcher
from ...engine.text.formatting import clean
from ..words.metrics import alert_rules, dashboard
from .complete import target_names
from .fleet.members import Member, member_of, members
from .fleet.observe import print_lines, watching

LOOPBACK = ("127.0.0.1", "::1", "localhost")
FIRST_LOOK_S = 10.0
"""Longest wait (s) of `--once` for the first snapshots."""


def export(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET…", autocompletion=target_names, help="a run, a configured target, or what 'attach' takes"
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="all that runs, is configured or is published")] = False,
    prometheus: Annotated[
        str | None, typer.Option(metavar="[HOST]:PORT", help="serve metrics, e.g. :9464 (on 127.0.0.1 without HOST)")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print one JSON line a refresh")] = False,
    once: Annotated[bool, typer.Option("--once", help="with --json: print one line and exit")] = False,
    print_dashboard: Annotated[bool, typer.Option("--dashboard", help="print a Grafana dashboard (JSON)")] = False,
    print_rules: Annotated[bool, typer.Option("--alert-rules", help="print alert rules for Prometheus (YAML)")] = False,
) -> None:
    """Export targets to Prometheus or as JSON lines; print a dashboard and alert rules for them."""
    if print_dashboard or print_rules:
        print(dashboard() if print_dashboard else alert_rules())
        return
    if prometheus is None and not json:
        raise UsageError("export how? Give --prometheus :9464 or --json (or --dashboard, --alert-rules)")
    address = None if prometheus is None else _address(prometheus)
    if not every and not targets:
        raise UsageError("export what? Give a TARGET (a run, a configured target, …) or --all")
    named = [member_of(target) for target in targets or []]

    def found() -> list[Member]:
        return [*named, *(members() if every else [])]  # with --all also those that appear later

    with watching(found) as watcher:
        if address is not None and not once:
            _serve(watcher, *address)
        _run(watcher, json=json, once=once)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) <= 65_535:
        raise UsageError(f"--prometheus '{clean(text)}' is not [HOST]:PORT, e.g. :9464 or 0.0.0.0:9464")
    return host.strip("[]") or LOOPBACK[0], int(port)


def _serve(watcher: Watcher, host: str, port: int) -> None:
    from .fleet.prometheus import serve_metrics

    try:
        bound = serve_metrics(watcher, host, port)
    except OSError as error:
        raise RunError(f"--prometheus: cannot listen on {clean(host)} port {port}: {error.strerror or error}") from None
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"metrics: http://{shown}:{bound}/metrics", err=True)
    if host not in LOOPBACK:
        typer.echo("wmtop: anyone who reaches this address can read the names of targets and channels", err=True)


def _run(watcher: Watcher, *, json: bool, once: bool) -> None:
    """Until a signal; print a line each refresh, or one."""
    stopping = threading.Event()

    def stop(number: int, frame: object) -> None:
        stopping.set()

    for number in () if once else (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    if json or once:
        print_lines(watcher, FIRST_LOOK_S if once else None, stopping)
    else:
        stopping.wait()
