"""What files of sinks are called: names of any characters and lengths lie in the sink's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.connectors.sinks.files import MOST_BYTES, as_file_name
from engine.session import Session

NAMES = ["/outside/by_name", "a/b", "k" * 250, "ü" * 250, "a\\b", "a:b*?", "%2F", "umsätze"]


@pytest.mark.parametrize("name", ["orders", "by_day-2", "umsätze", "Größe_1"])
def test_a_name_of_letters_digits_and_the_like_stands_for_itself(name: str) -> None:
    assert as_file_name(name) == name


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=255),
    st.text(min_size=1, max_size=255),
)
@example("/", "%2F")
@example("k" * 160, "k" * 250)
@example("k" * 249 + "a", "k" * 249 + "b")
@example("a==b", "a%3D%3Db")
def test_no_name_leads_out_of_its_folder_and_no_two_give_the_same(one: str, other: str) -> None:
    other = other.encode(errors="ignore").decode()
    found = as_file_name(one)
    assert Path(found).name == found and found not in (".", "..") and not found.startswith(".")
    assert len(found.encode()) <= MOST_BYTES and "\0" not in found
    assert (found == as_file_name(other)) == (one == other)


def test_sinks_of_any_name_deliver_into_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("TIDELINE_HOME", str(home))
    names = [name.replace("/outside", str(tmp_path)) for name in NAMES]
    with Session((home / "store").as_uri(), dialect="postgres") as session:
        session.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        session.sql("INSERT INTO t VALUES (1)")
        for name in names:
            text = f"CREATE SINK \"{name}\" FROM t WITH (connector = 'file', path = 'out', format = 'jsonl')"
            session.sql(text, build=False)
        reports = session.flush().sinks
    assert [report.error for report in reports] == [None] * len(names)
    assert len(list((home / "out").iterdir())) == len(names)
    assert list(tmp_path.iterdir()) == [home]
