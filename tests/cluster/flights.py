"""The views of the demo, run as a driver: flights land in a folder of this machine, the views follow, DuckDB judges them."""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path

from dagster_tideline.models.loader import load_models
from dagster_tideline.sync import sync_models
from demo.dataset import load_dataset
from demo.replay import Replay
from demo.verify import count_landed_rows, verify
from engine.connectors.sources import poll_all
from engine.session import Session
from tests.cluster.machines import ROOT
from tests.cluster.patience import Patient

BULK_UNTIL = datetime.date(2013, 12, 26)


def main(store: str, home: Path) -> None:
    """Land a year in bulk and its last days one by one; prints a line when all is equal."""
    os.environ["TIDELINE_HOME"] = str(home)
    replay = Replay(load_dataset(), home / "landing", BULK_UNTIL)
    models = load_models(ROOT / "assets")
    with Session(store) as session:
        report = sync_models(session, models)
        assert not report.errors, report.errors
        patient = Patient(session)
        for number, step in enumerate([replay.drop_bulk, *replay.steps]):
            print(f"epoch {number}", flush=True)
            step()
            for landed in patient.again(lambda: poll_all(session.catalog, session.store)):
                if landed.error:
                    print(f"left for later: {landed.error}", flush=True)
            patient.flush()
        patient.again(lambda: poll_all(session.catalog, session.store))
        patient.settle()
        verdicts = verify(session.store, models, None)
        wrong = [verdict for verdict in verdicts if not verdict.is_equal]
        assert verdicts and not wrong, wrong
        missing = [count for count in count_landed_rows(session.store, models, home) if not count.is_equal]
        assert not missing, missing
        print(f"equal: {len(verdicts)} views, {patient.failures} failures on the way", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
