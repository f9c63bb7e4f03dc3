"""The daemon that forks Spark's Python workers: PySpark's own, without two of its habits.

Over a Unix domain socket a worker that has been idle for a minute finds its end closed, and PySpark prints the broken pipe. And
after each task it searches all objects of the worker for garbage, which takes longer than a small task and holds up the next.

What workers need is imported here, once: they are forked from this process. A worker ends with the first task that fails in it,
and its successor would import for a second of processor time before its own first task.
"""

from __future__ import annotations

import gc
import importlib
import sys
import traceback

from engine.spark_internals import run_daemon


def print_exc() -> None:
    """Print the exception that is being handled, unless it says that nobody listens any more."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


def collect() -> None:
    """Collect garbage among the objects that are younger than the worker's first task: the older ones are modules."""
    gc.collect()
    if not _settled:
        gc.freeze()
        _settled.append(True)


_settled: list[bool] = []
IMPORTED = ("pyspark.worker", "pandas", "pyarrow.compute", "pyarrow.parquet", "engine.operators.compile")

if __name__ == "__main__":
    for module in IMPORTED:
        importlib.import_module(module)
    gc.freeze()  # so that a worker's search for garbage copies none of this process's pages
    run_daemon(print_exc, traceback.format_exc, collect)
