"""One huge commit of a source, and one huge range of a sink, take as much of the driver's memory as one that is four times smaller."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from engine.session import Session
from tests.connectors.conformance import sinks, sources

ROWS = 750_000
MORE_BYTES = 150 << 20
"""How much more four times the rows may take: files are merged while they are taken, and what a merge has at hand is greatest
only then. They take 90 MiB more, of sources with many commits as well; a delivery that writes nothing before its end takes 180.
"""
pytestmark = pytest.mark.conformance


def growth(url: str, what: str, spark: bool, **settings: str) -> int:
    """Return by how many bytes the memory of a process grows that does the work."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.connectors.conformance.memory", url, what]
    done = subprocess.run(
        [*command, "local[1]" if spark else "none"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**_environment(), **settings},
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])


def _environment() -> dict[str, str]:
    return {**os.environ, "TIDELINE_VERIFY": "0", "TIDELINE_LANDING_MEMORY": "32"}


@pytest.mark.parametrize("kind", sources.PARAMETERS)
def test_a_huge_commit_of_a_source_is_taken_in_bounded_memory(
    kind: type[sources.SourceCase], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spark = request.getfixturevalue("spark") if kind.with_spark else None
    took = []
    for number, rows in enumerate((ROWS, 4 * ROWS)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Session((folder / "store").as_uri(), spark) as session:
            case = kind(folder)
            if isinstance(case, sources.Nexmark):
                case.options = f"connector = 'nexmark', type = 'bid', max_events = '{rows}'"
                sources.SourceCase.create(case, session)  # and take nothing yet
            else:
                case.create(session)
                offer_huge(case, rows)
            took.append(growth(session.url, "poll", kind.with_spark, **kind.settings))
            expected = rows * 46 // 50 if isinstance(case, sources.Nexmark) else rows
            assert sum(entry.rows for entry in session.store.refresh().tables["t"].log) == expected
    assert took[1] < took[0] + MORE_BYTES, took


def offer_huge(case: sources.SourceCase, rows: int) -> None:
    """Offer many rows at once."""
    ids = pa.array(range(rows), pa.int64())
    table = pa.table({"id": ids, "n": ids})
    if isinstance(case, sources.Delta):
        write_deltalake(str(case.table), table, mode="append")
    elif isinstance(case, sources.Journal):
        with case.open() as file:
            file.executemany(
                "INSERT INTO journal (op, id, n) VALUES ('put', ?, ?)", ((n, n) for n in range(rows))
            )
    elif isinstance(case, sources.Postgres):
        case.database.run(f"INSERT INTO t SELECT n, n FROM generate_series(0, {rows - 1}) AS n")
    elif isinstance(case, sources.Kafka):
        case.topic.write(*((str(n), f'{{"id": {n}, "n": {n}}}') for n in range(rows)))
    elif isinstance(case, sources.Landing) and case.form == "parquet":
        pq.write_table(table, case.path("huge"), row_group_size=100_000)
    elif isinstance(case, sources.Landing) and case.form == "json":
        with case.path("huge").open("w") as lines:
            lines.writelines(f'{{"id": {n}, "n": {n}}}\n' for n in range(rows))
    elif isinstance(case, sources.Landing):
        pa_csv.write_csv(table, case.path("huge"))
    if isinstance(case, sources.LandingS3):
        case.put("huge")


@pytest.mark.parametrize("kind", sinks.PARAMETERS)
def test_a_huge_range_of_a_sink_is_delivered_in_bounded_memory(
    kind: type[sinks.SinkCase], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spark = request.getfixturevalue("spark") if kind.with_spark else None
    took = []
    for number, rows in enumerate((ROWS, 4 * ROWS)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Session((folder / "store").as_uri(), spark) as session:
            session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
            for start in range(0, rows, ROWS):
                ids = pa.array(range(start, start + ROWS), pa.int64())
                session.write("t", pa.table({"id": ids, "v": pa.repeat("x", ROWS)}))
            case = kind(folder, session)
            if isinstance(case, sinks.Files):
                case.rows_per_file = 100_000
            if isinstance(case, sinks.Kafka):
                case.transaction_rows = 100_000
            case.create()
            took.append(growth(session.url, "deliver", kind.with_spark))
    assert took[1] < took[0] + MORE_BYTES, took
