"""Every public verb in any order against a dictionary of versions: `python -m tests.hummock.state_machine --steps 20000`.

Two handles and a second process of the machine work on one store. Any write or compaction may crash at any request; whether a
crashed write was committed is read off the manifests, not asked of the engine.
"""

from __future__ import annotations

import argparse
import os

from tests.hummock.state_machine.machine import run


def main() -> None:
    """Run a number of steps and say how many."""
    os.environ.setdefault("TIDELINE_VERIFY", "1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    print(f"{run(parser.parse_args().steps):,} steps without a mismatch")


if __name__ == "__main__":
    main()
