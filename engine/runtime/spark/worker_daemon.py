"""The daemon that forks Spark's Python workers: PySpark's own, without two of its habits.

Over a Unix domain socket a worker that has been idle for a minute finds its end closed, and PySpark prints the broken pipe. And
after each task it searches all objects of the worker for garbage, which takes longer than a small task and holds up the next.

What workers need is imported here, once: they are forked from this process. A worker ends with the first task that fails in it,
and its successor would import for a second of processor time before its own first task.

Workers keep memory that they have freed, until they have been idle for a minute, when Spark ends them: to get it from the system
anew for each batch of rows took a tenth of their time, and more where two of them did.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import sys
import time
import traceback


def print_exception() -> None:
    """Print the exception that is being handled, unless it says that nobody listens any more."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


def collect_garbage() -> None:
    """Collect garbage among the objects that are younger than the worker's first task: the older ones are modules.

    All of those are searched once a second of the worker's processor time, else the ones of the task before: a small task
    takes as long as a search of all.
    """
    now = time.process_time()
    if not _searched:
        gc.collect()
        gc.freeze()
        _searched.append(now)
    elif now - _searched[0] >= SECONDS_BETWEEN_SEARCHES:
        gc.collect()
        _searched[0] = now
    else:
        gc.collect(0)


def keep_memory() -> None:
    """Let the allocators keep what is freed: Arrow's, which is not loaded yet, and the C library's, if that is glibc."""
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")
    library = ctypes.CDLL(None)
    for option, value in _MALLOC_OPTIONS if hasattr(library, "mallopt") else ():
        library.mallopt(option, value)


_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_MALLOC_OPTIONS = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 << 20))
"""Options of glibc's mallopt: large blocks too come from the heap, whose end is given back from 2 GiB on."""
SECONDS_BETWEEN_SEARCHES = 1.0
_searched: list[float] = []
"""The worker's processor time, in seconds, at its last search of all objects; none before its first task ends."""
IMPORTED = ("pyspark.worker", "pandas", "pyarrow.compute", "pyarrow.parquet", "engine.operators.compile")

if __name__ == "__main__":
    keep_memory()
    for module in IMPORTED:
        importlib.import_module(module)
    from engine.spark_internals import run_daemon  # with Arrow, so not before

    gc.freeze()  # so that a worker's search for garbage copies none of this process's pages
    run_daemon(print_exception, traceback.format_exc, collect_garbage)
