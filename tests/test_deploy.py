"""What `docs/deploy` offers: the commands exist, the parts of the YAML fit together, the scripts do what they say."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "docs" / "deploy"
WMTOP = [sys.executable, "-m", "wmtop.tui.cli"]
OBJECTS: list[Any] = [
    each for name in ("export.yaml", "check.yaml") for each in yaml.safe_load_all((DEPLOY / name).read_text())
]
PODS: dict[str, Any] = {
    each["kind"]: (each["spec"].get("jobTemplate") or each)["spec"]["template"] for each in OBJECTS if "spec" in each
}


def run(*command: str, directory: Path, said: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        command, cwd=directory, input=said, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": path, "HOME": str(directory)} | environment,
    )  # fmt: skip


def commands() -> list[str]:
    """Every wmtop command of the recipes and manifests, as one line without what is before `wmtop`."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", (DEPLOY / "README.md").read_text(), re.DOTALL))
    shown = re.findall(r"(?:^|-- |wmtop:[0-9.]+ (?:-- )?)(?:wmtop )?((?:attach|check|export) .*)", blocks, re.MULTILINE)
    shown += re.findall(r"^wmtop ((?:attach|check|export) .*)", blocks, re.MULTILINE)
    return shown + [shlex.join(pod["spec"]["containers"][0]["args"]) for pod in PODS.values()]


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_a_command_has_the_options_that_are_shown(tmp_path: Path, command: str) -> None:
    name, *arguments = shlex.split(command.partition(" >")[0])
    done = run(*WMTOP, name, "--help", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    options = [argument for argument in arguments if argument.startswith("--")]
    assert [option for option in options if not re.search(rf"{option}\b", done.stdout)] == []


def test_all_commands_are_looked_at() -> None:
    assert len(commands()) >= 6


@pytest.mark.parametrize("kind", PODS)
def test_the_parts_of_a_pod_fit_together(kind: str) -> None:
    pod = PODS[kind]["spec"]
    [container] = pod["containers"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    [configuration] = [each for each in OBJECTS if each["kind"] == "ConfigMap"]
    assert volumes["config"]["configMap"]["name"] == configuration["metadata"]["name"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert Path(variables["WMTOP_CONFIG"]).name in configuration["data"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"--uid {pod['securityContext']['runAsUser']} " in (DEPLOY / "Dockerfile").read_text()
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if probe in container:
            [action] = [container[probe][way] for way in ("httpGet", "tcpSocket") if way in container[probe]]
            assert str(ports[action["port"]]) == container["args"][-1].rpartition(":")[2]


def test_the_deployment_selects_its_pods() -> None:
    [deployment] = [each for each in OBJECTS if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert pod["metadata"]["annotations"]["prometheus.io/port"] in pod["spec"]["containers"][0]["args"][-1]


def test_the_configuration_is_accepted(tmp_path: Path) -> None:
    [configuration] = [each for each in OBJECTS if each["kind"] == "ConfigMap"]
    (tmp_path / "config.toml").write_text(configuration["data"]["config.toml"])
    done = run(*WMTOP, "config", directory=tmp_path, WMTOP_CONFIG=str(tmp_path / "config.toml"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "clicks-app" in done.stdout


def test_k9s_calls_the_script_with_what_it_takes() -> None:
    plugins = yaml.safe_load((DEPLOY / "k9s-plugins.yaml").read_text())["plugins"]
    assert {scope for plugin in plugins.values() for scope in plugin["scopes"]} == {
        "flinkdeployments", "sparkapplications"
    }  # fmt: skip
    for plugin in plugins.values():
        assert (DEPLOY / plugin["command"]).is_file()
        assert len(plugin["args"]) == 5
        assert all(isinstance(argument, str) for argument in plugin["args"])


def test_routes_lead_to_receivers() -> None:
    configuration = yaml.safe_load((DEPLOY / "alertmanager.yaml").read_text())
    names = {receiver["name"] for receiver in configuration["receivers"]}
    root = configuration["route"]
    assert {root["receiver"], *(route["receiver"] for route in root["routes"])} == names


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory of programs: this wmtop, and a `kubectl` that forwards a port on which nobody answers."""
    directory = tmp_path / "bin"
    directory.mkdir()
    scripts = {
        "wmtop": f'exec {shlex.join(WMTOP)} "$@" --once --json',
        "kubectl": f"echo $$ \"$@\" >{tmp_path}/asked\necho 'Forwarding from 127.0.0.1:9 -> 8081'\nexec sleep 600",
    }
    for name, script in scripts.items():
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)
    return directory


def test_a_forwarded_port_is_attached_to_and_given_up_again(tmp_path: Path, programs: Path) -> None:
    arguments = ["prod", "streams", "service/orders-rest", "8081", "flink"]
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = run(str(DEPLOY / "attach-through"), *arguments, directory=tmp_path, PATH=path)
    assert done.returncode == 2
    assert "http://127.0.0.1:9" in done.stderr
    pid, *asked = (tmp_path / "asked").read_text().split()
    expected = "--context prod --namespace streams port-forward --address 127.0.0.1 service/orders-rest :8081"
    assert asked == expected.split()
    assert not Path(f"/proc/{pid}/cmdline").exists() or b"sleep" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_what_kubectl_says_is_shown_if_it_fails(tmp_path: Path, programs: Path) -> None:
    (programs / "kubectl").write_text("#!/bin/sh\necho 'no such service' >&2\nexit 1\n")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = run(str(DEPLOY / "attach-through"), "c", "n", "service/x", "1", "flink", directory=tmp_path, PATH=path)
    assert (done.returncode, done.stderr) == (1, "no such service\n")


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[Any]]]:
    """The address of a server that accepts alerts at /ok, and what it got."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200 if self.path == "/ok" else 403)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()
        thread.join()


def alert(code: str, verdict: str) -> str:
    return json.dumps({"wall_ms": 1, "target": "orders", "code": code, "verdict": verdict, "args": {"channel": "p-3"}})


@pytest.mark.parametrize(
    ("code", "verdict", "action", "severity"),
    [
        ("verdict_changed", "stalled", "trigger", "critical"),
        ("verdict_changed", "unknown", "trigger", "warning"),
        ("engine_lost", "moving", "trigger", "critical"),
        ("late_burst", "moving", "trigger", "warning"),
        ("verdict_changed", "moving", "resolve", None),
    ],
)
def test_pagerduty_opens_and_resolves(
    tmp_path: Path, receiver: tuple[str, list[Any]], code: str, verdict: str, action: str, severity: str | None
) -> None:
    address, got = receiver
    (tmp_path / "key").write_text("k123\n")
    done = run(
        sys.executable, str(DEPLOY / "notify"), "pagerduty", "key", directory=tmp_path, said=alert(code, verdict),
        PAGERDUTY_EVENTS=f"{address}/ok",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    [event] = got
    assert (event["routing_key"], event["event_action"], event["dedup_key"]) == ("k123", action, "wmtop orders")
    assert event.get("payload", {}).get("severity") == severity


def test_slack_gets_the_alert_and_a_refusal_never_shows_the_address(
    tmp_path: Path, receiver: tuple[str, list[Any]]
) -> None:
    address, got = receiver
    notify = [sys.executable, str(DEPLOY / "notify"), "slack", "hook"]
    (tmp_path / "hook").write_text(f"{address}/ok\n")
    assert run(*notify, directory=tmp_path, said=alert("verdict_changed", "stalled")).returncode == 0
    assert "orders" in got[0]["text"]
    assert "p-3" in got[0]["text"]
    for secret in (f"{address}/secret", "secret", "http://127.0.0.1:secret/x", "http://127.0.0.1:1/secret"):
        (tmp_path / "hook").write_text(secret)
        done = run(*notify, directory=tmp_path, said=alert("verdict_changed", "stalled"))
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert "secret" not in line


@pytest.mark.matrix
def test_the_image_for_watching_can_be_built(tmp_path: Path) -> None:
    """The lines of its build stage, with a directory instead of the image's root."""
    stage = (DEPLOY / "Dockerfile").read_text().split("FROM ")[1]
    source, home = tmp_path / "src", tmp_path / "wmtop"
    for names in re.findall(r"^COPY (.*)$", stage, re.MULTILINE):
        *froms, to = names.split()
        for name in froms:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                (source / to).mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, source / to)
    lines = re.findall(r"^RUN (.*)$", stage, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        line = line.replace("/opt/wmtop", str(home)).replace("python -m", f"{sys.executable} -m")
        done = subprocess.run(["sh", "-c", line], cwd=source, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    done = subprocess.run([home / "bin" / "wmtop", "--version"], capture_output=True, text=True, check=False)
    assert "Spark not installed" in done.stdout
    [packages] = home.glob("lib/python*/site-packages")
    not_ours = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    files = [path for path in packages.rglob("*") if not path.relative_to(packages).parts[0].startswith(not_ours)]
    assert sum(path.stat().st_blocks * 512 for path in files) < 80 * 2**20
