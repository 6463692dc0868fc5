"""Arrow columns in Spark's tasks, without pandas.

`DataFrame.mapInArrow` and `GroupedData.applyInArrow` do the same, but refuse to without pandas, which neither they nor
their workers use (pyspark/sql/pandas/map_ops.py, group_ops.py); users need not have it, and importing it takes 0.5 s of
the start.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def map_in_arrow(
    rows: "DataFrame",
    task: "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]",
    schema: "StructType | str",
) -> "DataFrame":
    """What a task makes of the rows of each partition, in columns of that schema."""
    from pyspark.sql import DataFrame
    from pyspark.util import PythonEvalType

    column = _call(rows, task, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    plan: Any = rows
    return DataFrame(plan._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)


def apply_in_arrow(
    rows: "DataFrame", key: str, task: "Callable[[pa.Table], pa.Table]", schema: "StructType | str"
) -> "DataFrame":
    """What a task makes of the rows of each group with the same `key`, in columns of that schema."""
    from pyspark.sql import DataFrame
    from pyspark.util import PythonEvalType

    column = _call(rows, task, schema, PythonEvalType.SQL_GROUPED_MAP_ARROW_UDF)
    groups: Any = rows.groupBy(key)
    return DataFrame(groups._jgd.flatMapGroupsInArrow(column._jc), rows.sparkSession)


def _call(rows: "DataFrame", task: Callable[[Any], Any], schema: "StructType | str", kind: Any) -> Any:
    """The call of the task, with all columns of the rows."""
    from pyspark.sql.udf import UserDefinedFunction

    function = UserDefinedFunction(task, returnType=schema, evalType=kind)
    return function(*[rows[name] for name in rows.columns])
