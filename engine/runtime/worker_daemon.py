"""The daemon that forks Spark's Python workers: PySpark's own, without a stack trace for each worker that Spark lets go.

Over a Unix domain socket a worker that has been idle for a minute finds its end closed, and PySpark prints the broken pipe.
Only the standard library may be imported here besides: workers are forked from this process.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

from pyspark import daemon


def print_exc() -> None:
    """Print the exception that is being handled, unless it says that nobody listens any more."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    daemon.traceback = SimpleNamespace(print_exc=print_exc, format_exc=traceback.format_exc)  # type: ignore[assignment]
    daemon.manager()
