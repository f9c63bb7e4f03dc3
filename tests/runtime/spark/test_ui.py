"""Spark's own page is shown where it is asked for, on loopback only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.runtime.spark.ui import VARIABLE, ui_settings

LOCAL = """
import sys
from urllib.request import urlopen
from engine.session import Session
with Session(sys.argv[1], "local[1]") as session:
    assert session.computing.range(3).count() == 3
    print(session.spark_ui)
    if session.spark_ui:
        print(urlopen(session.spark_ui + "/jobs/", timeout=60).status)
"""


@pytest.mark.parametrize("asked", ["1", "0"])
def test_a_local_spark_shows_its_page_on_loopback_where_it_is_asked_to(tmp_path: Path, asked: str) -> None:
    own = {key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOCAL, (tmp_path / "store").as_uri()],
        env={**own, VARIABLE: asked, "TIDELINE_DRIVER_MEMORY": "1g"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.split()
    assert told == ["None"] if asked == "0" else told[0].startswith("http://127.0.0.1:") and told[1] == "200"


def test_it_is_not_shown_where_spark_would_listen_to_other_machines() -> None:
    assert ui_settings({VARIABLE: "1"}, 4040)["spark.ui.port"] == "4040"
    assert ui_settings({VARIABLE: "1", "SPARK_LOCAL_IP": "127.0.0.1"})
    assert ui_settings({VARIABLE: "1", "SPARK_LOCAL_IP": "10.0.0.5"}) == {}
    assert ui_settings({}) == {}
