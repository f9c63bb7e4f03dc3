"""DROP of a view whose build begins in another process at the same time: the other one's tables do not outlive the view."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.errors import Conflict
from engine.hummock import Commit, Table
from engine.meta.domains.creation import BACKFILLS, list_creations
from engine.runtime.statements import drop
from engine.session import Session


def test_a_drop_does_not_miss_what_another_process_begins_to_build(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT)")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)")
    session.sql(
        "CREATE MATERIALIZED VIEW v WITH (background = true) AS SELECT g, max(id) AS m, count(*) AS n FROM t GROUP BY g"
    )
    build_removal = drop.build_removal
    with Session(session.url, session.spark) as other:
        other._runner.backfill.get_pace("v").rows = 1

        def begin_first(*what: object) -> object:
            removal = build_removal(*what)
            other.flush(background_seconds=0.0).raise_for_errors()
            return removal

        monkeypatch.setattr(drop, "build_removal", begin_first)
        with pytest.raises(Conflict, match="began to be built at the same time"):
            session.sql("DROP MATERIALIZED VIEW v")
        monkeypatch.undo()
    assert list_creations(session.store.refresh()).keys() == {"v"}
    left = session.store.version.catalog[BACKFILLS.key("v")]
    session.sql("DROP MATERIALIZED VIEW v")
    assert not list_creations(session.store.refresh()) and set(session.store.version.tables) == {"t"}
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id + 1 AS next FROM t")
    state = Table("_state_v_1", pa.schema([("g", pa.int64())]), ("g",))
    session.store.commit(Commit(create=[state], catalog={BACKFILLS.key("v"): left}))  # as it was missed once
    session.flush().raise_for_errors()
    assert "_state_v_1" not in session.store.refresh().tables
    assert session.sql("SELECT * FROM v ORDER BY next").to_pylist() == [{"next": n} for n in (2, 3, 4)]
