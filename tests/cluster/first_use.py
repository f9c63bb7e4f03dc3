"""The first use of a Spark by a session over a store, run as a driver: says how it went, in one line."""

from __future__ import annotations

import sys

from engine.errors import EnvironmentNotReady
from engine.session import Session


def main(store: str) -> None:
    """Print what the session says, or how many tasks run at the same time."""
    with Session(store) as session:
        try:
            spark = session.computing
        except EnvironmentNotReady as error:
            print(f"error: {error}")
        else:
            print(f"ready: {spark.version}")


if __name__ == "__main__":
    main(sys.argv[1])
