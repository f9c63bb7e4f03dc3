"""Spark's own page is shown where it is asked for, on loopback only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.runtime.spark.ui import VARIABLE, build_ui_settings
from tests.own_process import printed

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


@pytest.mark.long
@pytest.mark.parametrize("asked", ["1", "0"])
def test_a_local_spark_shows_its_page_on_loopback_where_it_is_asked_to(tmp_path: Path, asked: str) -> None:
    own = {key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"}
    own |= {VARIABLE: asked, "TIDELINE_DRIVER_MEMORY": "1g"}
    output = printed(LOCAL, (tmp_path / "store").as_uri(), environment=own).split()
    assert (
        output == ["None"]
        if asked == "0"
        else output[0].startswith("http://127.0.0.1:") and output[1] == "200"
    )


def test_it_is_not_shown_where_spark_would_listen_to_other_machines() -> None:
    assert build_ui_settings({VARIABLE: "1"}, 4040)["spark.ui.port"] == "4040"
    assert build_ui_settings({VARIABLE: "1", "SPARK_LOCAL_IP": "127.0.0.1"})
    assert build_ui_settings({VARIABLE: "1", "SPARK_LOCAL_IP": "10.0.0.5"}) == {}
    assert build_ui_settings({}) == {}
