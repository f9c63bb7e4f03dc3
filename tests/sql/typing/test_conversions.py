"""The table of conversions: verdicts, places of faults, and values that no type may lose."""

from __future__ import annotations

import pyarrow as pa

from engine.sql.typing.conversions import convert


def test_a_column_of_a_type_that_never_fits_is_set_aside_as_a_whole() -> None:
    found = convert(pa.array([{"a": 1}, None, {"a": 2}]), pa.int32())
    assert (found.values.to_pylist(), found.bad.tolist()) == ([None, None, None], [0, 2])


def test_nested_texts_that_cannot_be_read_are_set_aside() -> None:
    texts = ["[1, 2]", "[" * 5000, "[" + "1" * 5000 + "]", '["\\ud800"]', '{"a": 1}', "[3]"]
    found = convert(pa.array(texts), pa.list_(pa.int32()))
    assert found.values.to_pylist() == [[1, 2], None, None, None, None, [3]]
