"""The class-data archive: found only when whole and for this Java; what the helper does works."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
import pytest
from msgspec.structs import replace
from wmtop.engine.run import session
from wmtop.engine.run.warm_up import exercise
from wmtop.engine.system.errors import UsageError
from wmtop.engine.system.files import lock_file
from wmtop.engine.system.java import Java, find_java

from ..refusals import refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """This machine's Java, with an empty cache."""
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda app: str(tmp_path / "cache"))
    session.archives().mkdir(parents=True)
    return find_java()


def made(content: bytes) -> Path:
    file = session.archives() / "new.jsa"
    file.write_bytes(content)
    return file


def test_an_archive_is_found_by_the_java_it_was_made_for(installed: Java) -> None:
    assert session.find_archive(installed) is None
    assert session.java_options(installed) == ""
    kept = session.keep_archive(installed, made(b"classes"))
    assert session.find_archive(installed) == kept
    assert f"-XX:SharedArchiveFile={kept}" in session.java_options(installed)
    assert session.find_archive(replace(installed, banner="another")) is None


def test_an_archive_that_others_can_change_is_refused(installed: Java) -> None:
    kept = session.keep_archive(installed, made(b"classes"))
    kept.chmod(0o666)
    with refused(UsageError, "writable_by_others", kept):
        session.java_options(installed)


def test_a_truncated_archive_is_not_used(installed: Java) -> None:
    kept = session.keep_archive(installed, made(b"classes"))
    kept.write_bytes(b"class")
    assert session.find_archive(installed) is None


def test_a_few_that_were_used_last_are_kept(installed: Java) -> None:
    javas = [replace(installed, banner=str(number)) for number in range(5)]
    for age, java in enumerate(javas[:3]):
        os.utime(session.keep_archive(java, made(b"classes")), (age, age))
    session.java_options(javas[0])  # used again
    for age, java in enumerate(javas[3:], start=3):
        os.utime(session.keep_archive(java, made(b"classes")), (age, age))
    assert [session.find_archive(java) is not None for java in javas] == [True, False, False, True, True]


def test_an_untied_helper_waits_for_another_and_makes_no_second_archive(installed: Java, tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    (tmp_path / "wmtop").symlink_to(tmp_path / "cache")
    with (session.archives() / "lock").open("w") as lock:
        lock_file(lock)
        command = [sys.executable, "-m", "wmtop.engine.run.warm_up", "--untied"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment) as helper:
            while not any(f" {helper.pid} " in line for line in Path("/proc/locks").read_text().splitlines()):
                assert helper.poll() is None, "it did not wait"
                time.sleep(0.02)
            kept = session.keep_archive(installed, made(b"classes"))
            lock.close()
    assert helper.returncode == 0
    assert list(session.archives().glob("*.jsa")) == [kept]
    assert not (session.archives() / "making").exists()


def test_none_is_made_where_there_is_one_or_none_can_be_made(installed: Java) -> None:
    session.make_archive_later(installed, wait_s=3_600)
    assert session._helper.timer is not None
    session.stop_archive_helper()
    session.failed_archive_mark(installed).touch()
    session.make_archive_later(installed, wait_s=3_600)
    assert session._helper.timer is None
    session.failed_archive_mark(installed).unlink()
    session.keep_archive(installed, made(b"classes"))
    session.make_archive_later(installed, wait_s=3_600)
    assert session._helper.timer is None


def test_what_the_helper_does_works(spark: "SparkSession", tmp_path: Path) -> None:
    exercise(spark, tmp_path)
    saved = json.loads((tmp_path / "state" / "state.json").read_bytes())
    assert saved["monitor"]["batch"] == 2  # applied: Spark is stopped at once, perhaps before it has written its commit
