"""`tideline up`: the project in the browser, sensor running, with a warm Spark, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import time

from dagster_tideline.code_server import start_lost_code
from dagster_tideline.services import Services, build_project_environment, find_free_port
from dagster_tideline.settings import Settings, find_project_folder
from engine.errors import TidelineError

PORT = 3000
LOOK_SECONDS = 10.0


def main() -> int:
    """Start everything, say where the page is, and wait; 0 after Ctrl-C, 1 with one sentence if something is missing."""
    signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        settings = Settings.of_environment(find_project_folder())
        with Services(settings.home, build_project_environment(settings), settings.project) as services:
            if "SPARK_REMOTE" not in os.environ and not settings.spark:
                print("starting Spark …", flush=True)
                services.start_spark_connect()
            print("starting Dagster …", flush=True)
            page = services.start_dagster(find_free_port(PORT))
            print(f"\n  {page.address}      assets, runs, and the sensor that keeps the views up to date")
            print(f"  store: {settings.store}\n  logs:  {services.state / 'logs'}")
            print("\nCtrl-C ends it.", flush=True)
            looked = time.monotonic()
            while True:
                for service in services.started:
                    service.check()
                if time.monotonic() - looked > LOOK_SECONDS:
                    looked = time.monotonic()
                    for name in start_lost_code(page.address):
                        print(
                            f"the process with the definitions of {name} was gone: it is started again",
                            flush=True,
                        )
                time.sleep(1)
    except KeyboardInterrupt:
        print("ended")
        return 0
    except TidelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
