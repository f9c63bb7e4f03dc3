"""A Spark Connect server, and clients of it in processes of their own."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_tideline.services import Services
from engine.runtime.spark.connect import find_server
from tests.own_process import printed


@pytest.fixture(scope="package")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server for the tests of this folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDELINE_DRIVER_MEMORY", "1g")
        patch.setenv(
            "JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
        )
        patch.setenv("TIDELINE_VERIFY", "1")
        home = tmp_path_factory.mktemp("server")
        with Services(home, {"TIDELINE_STORE": home.as_uri()}) as services:
            services.start_spark_connect()
            warm = find_server(home / ".tideline")
            assert warm is not None
            yield warm.address


def said(script: str, address: str, folder: Path) -> str:
    """Return what a client prints, in a session of its own; it is a process of its own, as this one has a Spark in it."""
    address = re.sub("session_id=[^;]+", f"session_id={uuid.uuid4()}", address)
    own = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
    given = f"{address}\n{(folder / 'store').as_uri()}\n"
    return printed(script, given=given, environment=own | {"TIDELINE_VERIFY": "1"})
