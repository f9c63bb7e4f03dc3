"""Spark's own page: what its jobs do, on a port of the loopback address."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from engine.runtime.spark.connect import LOOPBACK
from engine.spark_internals import is_in_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
VARIABLE = "TIDELINE_SPARK_UI"
ADDRESS = "spark.tideline.ui"
"""Says in a session of a server where that server's page is."""


def build_ui_settings(environment: Mapping[str, str], port: int = 0) -> dict[str, str]:
    """Return the settings with which a Spark of this environment shows on a page what it does; port 0 is any that is free.

    None where nobody has asked for it, or where Spark would listen elsewhere than on loopback: the page has no login.
    """
    if environment.get(VARIABLE) != "1" or environment.get("SPARK_LOCAL_IP", LOOPBACK) != LOOPBACK:
        return {}
    return {
        "spark.ui.enabled": "true",
        "spark.ui.killEnabled": "false",
        "spark.ui.port": str(port),
        "spark.sql.ui.explainMode": "formatted",
    }


def announce_address(spark: SparkSession) -> str | None:
    """Return where a browser on this machine sees what a Spark does, and log it; None if it is not shown."""
    address = None
    if is_in_process(spark):
        address = spark.sparkContext.uiWebUrl
        if address is not None and os.environ.get("SPARK_LOCAL_IP") == LOOPBACK:
            # Spark names the address at which executors reach the driver; the page listens where that variable says
            address = f"http://{LOOPBACK}:{urlsplit(address).port}"
    elif os.environ.get(VARIABLE) == "1":  # asking a server takes a request
        address = spark.conf.get(ADDRESS, None)
    if address is not None:
        _LOG.info("Spark shows what it does at %s", address)
    return address
