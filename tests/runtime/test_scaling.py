"""Scaling: another parallelism is taken by a barrier while data flows; files follow by compaction, results stay those of a batch run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engine.hummock.compaction.pickers.vnode import VnodeAlignment, find_group
from engine.meta.domains.mutation import read_control
from engine.operators.context import SMALL_CHANGE_ROWS
from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content

QUERY = "SELECT id % 1000 AS g, shop, count(*) AS n, sum(price) AS total FROM sale GROUP BY id % 1000, shop"
LARGE = SMALL_CHANGE_ROWS + 10_000


def sales(low: int, high: int) -> pa.Table:
    ids = np.arange(low, high)
    return pa.table({"id": ids, "shop": ids % 97, "price": ids % 1013})


def newest_files(session: Session) -> int:
    return len(session.store.version.tables["v"].log[-1].ssts)


def check(session: Session) -> None:
    assert_equal(content(session, "v"), by_duckdb({"sale": content(session, "sale")}, QUERY), "v")


@pytest.mark.long
def test_a_view_scales_up_and_down_between_epochs_and_within_one_and_over_a_crash(session: Session) -> None:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT)")
    session.write("sale", sales(0, LARGE))
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (parallelism = 2) AS {QUERY}")
    assert newest_files(session) == 2
    session.sql("ALTER MATERIALIZED VIEW v SET PARALLELISM 5")
    session.write("sale", sales(LARGE, 2 * LARGE))
    executor = session._runner.executor
    compute = executor.compute

    def rescaled_within(task):  # type: ignore[no-untyped-def]
        session.rescale("v", 3)
        executor.compute = compute  # type: ignore[method-assign]
        return compute(task)

    executor.compute = rescaled_within  # type: ignore[method-assign]
    report = session.flush()
    assert report["v"].mutations == ("update v to 5 tasks",) and newest_files(session) == 5
    assert read_control(session.store.version, "v").asked[0].value == 3
    check(session)
    session.write(
        "sale", sales(LARGE // 2, LARGE // 2 + LARGE).set_column(2, "price", pa.array(np.full(LARGE, 7)))
    )

    def crashed(task):  # type: ignore[no-untyped-def]
        compute(task)
        raise OSError("the machine is gone")

    executor.compute = crashed  # type: ignore[method-assign]
    assert session.flush().failed and read_control(session.store.version, "v").parallelism == {"v": 3}
    with Session(session.url, session.spark) as other:
        assert not other.flush().failed and newest_files(other) == 3
        check(other)
        while VnodeAlignment(3).pick(other.store.version.tables["v"]) is not None:
            other.store.compact("v", VnodeAlignment(3))
        aligned = other.store.version.tables["v"]
        assert aligned.table.options.vnode_groups == 3
        assert {find_group(sst.min_hash, 3) for sst in aligned.live_ssts} == {0, 1, 2}
        other.rescale("v", None)
        other.write("sale", sales(0, 10))
        assert not other.flush().failed
        assert other.store.version.tables["v"].table.options.vnode_groups is None
        check(other)
