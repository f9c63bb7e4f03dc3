"""The demo counts what its files leave in a table without the engine: later rows replace, deletes remove, broken lines are nobody's."""

from __future__ import annotations

import os
from pathlib import Path

from demo.file_counts import count_rows


def land(folder: Path, name: str, text: str, at: int) -> None:
    (folder / name).write_text(text)
    os.utime(folder / name, (at, at))


def test_a_row_that_comes_again_counts_once_and_a_deleted_one_not_at_all(tmp_path: Path) -> None:
    land(tmp_path, "b.csv", "id,day,x\n1,1,a\n2,1,b\n1,2,c\n", at=1)
    land(tmp_path, "a.csv", "day,id,_op\n1,1,delete\n", at=2)
    land(tmp_path, "c.csv", "id,day,x\n2,1,z\n", at=3)
    found = count_rows("t", tmp_path, ("id", "day"), 2)
    assert (found.files, found.landed, found.is_equal) == (3, 2, True)


def test_a_row_that_is_lost_is_told(tmp_path: Path) -> None:
    land(tmp_path, "a.csv", "id,x\n1,a\n2,b\n", at=1)
    assert not count_rows("t", tmp_path, ("id",), 1).is_equal


def test_a_broken_line_is_nobodys_row(tmp_path: Path) -> None:
    land(tmp_path, "a.csv", 'id,x\n1,"a\nb"\n2013\n2,b\n', at=1)
    assert count_rows("t", tmp_path, ("id",), 2).is_equal
