"""Scripts that run in a process of their own: it may stop its Spark, or be killed, and has none of the tests' state."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 600


def printed(
    script: str, *arguments: str, given: str | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Return what a script of Python prints that ends well; `given` is what it reads."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        input=given,
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
