"""A job's environment may have an older PySpark: what needs a newer one says so, in one line."""

import pyspark
import pytest
from wmtop.engine.run.session import check_version
from wmtop.engine.system.errors import UsageError


def test_an_older_pyspark_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    check_version((4, 3))
    monkeypatch.setattr(pyspark, "__version__", "3.5.7")
    with pytest.raises(UsageError, match=r"4\.3.*3\.5\.7.*pip install 'pyspark>=4\.3,<4\.4'"):
        check_version((4, 3))
