"""A project with Dagster's own services around it, driven as its page does it: by GraphQL, by signals, by files that land."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from dagster_tideline.services import Service, Services, build_project_environment
from dagster_tideline.settings import Settings

PROJECT = Path(__file__).resolve().parents[2]
WAIT_SECONDS = 180.0
LOOK_SECONDS = 0.1
ENDED = ("SUCCESS", "FAILURE", "CANCELED")
JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
RUNS = """
query Runs($filter: RunsFilter, $limit: Int) { runsOrError(filter: $filter, limit: $limit) {
  ... on Runs { results { runId status jobName tags { key value } } } } }
"""
TERMINATE = """
mutation Terminate($ids: [String!]!) { terminateRuns(runIds: $ids, terminatePolicy: SAFE_TERMINATE) {
  ... on TerminateRunsResult { terminateRunResults { __typename
    ... on TerminateRunFailure { message } ... on PythonError { message } } } ... on PythonError { message } } }
"""
RELOAD = """
mutation Reload($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename
  ... on WorkspaceLocationEntry { loadStatus locationOrLoadError { __typename ... on PythonError { message } } }
  ... on ReloadNotSupported { message } ... on RepositoryLocationNotFound { message } } }
"""
SENSORS = """
query { sensorsOrError(repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "tideline"}) {
  ... on Sensors { results { id name } } } }
"""
STOP = "mutation Stop($id: String!) { stopSensor(id: $id) { __typename } }"
START = """
mutation Start($name: String!) { startSensor(sensorSelector:
  {sensorName: $name, repositoryName: "__repository__", repositoryLocationName: "tideline"}) { __typename } }
"""
LOGS = """
query Logs($id: ID!) { logsForRun(runId: $id, limit: 1000) { ... on EventConnection { events { __typename
  ... on MessageEvent { message level } ... on ErrorEvent { error { message } } } } } }
"""


_INTERRUPTED = threading.Event()


def until(holds: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS) -> Any:
    """Return the first answer that is true; fails with what was waited for."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"it did not come: {what}"
        _INTERRUPTED.wait(LOOK_SECONDS)  # what is waited for happens in other processes, which tell nobody
    return found


class Served:
    """A project in `home` with Dagster running."""

    def __init__(self, home: Path, services: Services, page: Service) -> None:
        self.home, self.services, self.page = home, services, page

    def ask(self, query: str, **variables: object) -> dict[str, Any]:
        """Ask the webserver as the page does."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        headers = {"Content-Type": "application/json"}
        with urlopen(Request(f"{self.page.address}/graphql", body, headers), timeout=60) as answer:
            found = json.load(answer)
        assert "errors" not in found, found
        return dict(found["data"])

    def runs(self, job: str, *statuses: str) -> list[dict[str, Any]]:
        """Return the runs of a job, newest first."""
        chosen: dict[str, object] = {"pipelineName": job} | ({"statuses": list(statuses)} if statuses else {})
        found = self.ask(RUNS, filter=chosen, limit=50)["runsOrError"]["results"]
        return [{**run, "tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in found]

    def run(self, run_id: str) -> dict[str, Any]:
        """Return one run."""
        (found,) = self.ask(RUNS, filter={"runIds": [run_id]}, limit=1)["runsOrError"]["results"]
        return dict(found)

    def terminate(self, run_id: str) -> None:
        """End a run as the page's button does it."""
        (done,) = self.ask(TERMINATE, ids=[run_id])["terminateRuns"]["terminateRunResults"]
        assert done["__typename"] == "TerminateRunSuccess", done

    def reload(self) -> None:
        """Load the definitions again as the page's button does it."""
        done = self.ask(RELOAD, name="tideline")["reloadRepositoryLocation"]
        assert done["__typename"] == "WorkspaceLocationEntry", done
        assert done["locationOrLoadError"]["__typename"] == "RepositoryLocation", done

    def stop_sensors(self) -> None:
        """Let no run be asked for until `start_sensors`."""
        for sensor in self.ask(SENSORS)["sensorsOrError"]["results"]:
            done = self.ask(STOP, id=sensor["id"])["stopSensor"]
            assert done["__typename"] == "StopSensorMutationResult", done

    def start_sensors(self) -> None:
        """Let runs be asked for again."""
        for sensor in self.ask(SENSORS)["sensorsOrError"]["results"]:
            done = self.ask(START, name=sensor["name"])["startSensor"]
            assert done["__typename"] == "Sensor", done

    def log(self, run_id: str) -> str:
        """Return what a run has told."""
        events = self.ask(LOGS, id=run_id)["logsForRun"]["events"]
        lines = []
        for event in events:
            lines.append(f"{event['__typename']} {event.get('message', '')}")
            if event.get("error"):
                lines.append(event["error"]["message"])
        return "\n".join(lines)

    def model(self, name: str, text: str) -> None:
        """Write one model file."""
        (self.home / "assets").mkdir(exist_ok=True)
        (self.home / "assets" / name).write_text(text)

    def land(self, table: str, name: str, text: str) -> None:
        """Drop one file into a landing folder, whole at once."""
        folder = self.home / "landing" / table
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{name}.part"
        part.write_text(text)
        os.replace(part, folder / name)


@contextmanager
def served(
    home: Path,
    models: Mapping[str, str],
    *,
    runs: str,
    store: str = "",
    environment: Mapping[str, str] | None = None,
    warm: bool = False,
) -> Iterator[Served]:
    """Serve a project with these models; `warm` starts the Spark that runs share."""
    (home / "assets").mkdir(parents=True, exist_ok=True)
    for name, text in models.items():
        (home / "assets" / name).write_text(text)
    settings = Settings(
        project=PROJECT,
        home=home,
        assets=home / "assets",
        store=store or (home / ".tideline" / "store").as_uri(),
    )
    given = {
        **build_project_environment(settings),
        "TIDELINE_RUNS": runs,
        "TIDELINE_CACHE_DIR": str(home / "cache"),
        "TIDELINE_DRIVER_MEMORY": "1g",
        "JDK_JAVA_OPTIONS": JAVA,
        "PYTHONPATH": str(PROJECT),
        **(environment or {}),
    }
    with Services(home, given, PROJECT) as services:
        if warm:
            services.start_spark_connect()
        yield Served(home, services, services.start_dagster())
