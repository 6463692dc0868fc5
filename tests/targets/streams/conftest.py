"""One real broker that knows both group protocols, and applications on it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.system.errors import RunError, UsageError
from wmtop.engine.system.java import find_java
from wmtop.engine.targets.flink.demo import compile_job

from .applications import Application, Cluster, streams_jars

VERSION = "4.1.0"
PROPERTIES = {
    "log.retention.ms": "-1",
    # KIP-1071 is not yet final in this release.
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
    "unstable.feature.versions.enable": "true",
    "unstable.api.versions.enable": "true",
}
StartApplication = Callable[..., Application]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    local = LocalBroker(tmp_path_factory.mktemp("kafka"), properties=PROPERTIES)
    try:
        local.start(print)
    except (UsageError, RunError) as error:
        pytest.fail(str(error), pytrace=False)
    admin: Any = KafkaAdminClient(bootstrap_servers=local.bootstrap)
    assert admin.update_features({"streams.version": 1}) == {"streams.version": "OK"}
    admin.close()
    yield Cluster(local.bootstrap)
    local.stop()


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The class path of the application, compiled against a release once."""
    compiled: dict[str, str] = {}

    def of(version: str) -> str:
        if version not in compiled:
            directory, jars = tmp_path_factory.mktemp("classes"), streams_jars(version)
            java = str(find_java().home / "bin" / "java")
            compile_job(java, [jars], [Path(__file__).parent / "WindowsApp.java"], directory)
            compiled[version] = f"{directory}:{jars}/*"
        return compiled[version]

    return of


@pytest.fixture
def start(cluster: Cluster, classes: Callable[[str], str], tmp_path: Path) -> Iterator[StartApplication]:
    """Starts an application on these topics; `start(["orders"], mode="suppress")`."""
    with ExitStack() as stack:

        def run(inputs: list[str], version: str = VERSION, **options: object) -> Application:
            return stack.enter_context(Application(cluster, classes(version), tmp_path, inputs, **options))

        yield run
