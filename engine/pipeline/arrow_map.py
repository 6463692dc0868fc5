"""Arrow columns in Spark's tasks, without pandas."""

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
    """What a task makes of the rows of each partition, in columns of that schema.

    `DataFrame.mapInArrow` does the same, but refuses to without pandas, which neither it nor its workers use
    (pyspark/sql/pandas/map_ops.py); users need not have it, and importing it takes 0.5 s of the start.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    function = UserDefinedFunction(task, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column: Any = function(*[rows[name] for name in rows.columns])
    session = rows.sparkSession
    plan: Any = rows
    return DataFrame(plan._jdf.mapInArrow(column._jc, False, None), session)
