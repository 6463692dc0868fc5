"""What a target on the command line means as a path, and which paths this user may not look into."""

import os
from pathlib import Path

import pytest
from wmtop.engine.system.errors import UsageError
from wmtop.engine.targets.own import is_remote, local_path


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "file://localhost", "FILE:"])
def test_a_path_may_be_a_uri_as_spark_writes_it(prefix: str, tmp_path: Path) -> None:
    assert local_path(f"{prefix}{tmp_path}") == tmp_path


def test_a_uri_with_more_slashes_names_the_same_path(tmp_path: Path) -> None:
    assert str(local_path(f"file:///{tmp_path}")) == str(tmp_path)


def test_a_locked_directory_is_one_line_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)  # the tests may run as root, who may read everything
    with pytest.raises(UsageError, match=f"^cannot read {tmp_path}: Permission denied$"):
        local_path(str(tmp_path))


def test_what_is_on_no_file_system_here_is_named() -> None:
    with pytest.raises(UsageError, match=r"mount|driver"):
        local_path("dbfs:/x")
    assert [is_remote(target) for target in ("s3a://b/x", "HDFS://n:8020/x", "dbfs:/x", "file:/x", "/x", "x")] == [
        True, True, False, False, False, False
    ]  # fmt: skip
