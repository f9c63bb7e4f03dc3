"""Objects that are read at once become the same rows as those that are read one by one."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from engine.connectors.formats.debezium import CHANGE
from engine.connectors.formats.file_format import FileOptions
from engine.connectors.formats.json_columns import read_flat_changes, read_flat_objects
from engine.connectors.formats.json_reader import read_objects
from engine.connectors.formats.read_limits import ReadLimits
from engine.sql.typing.column_conversion import convert_to_type
from tests.long_rest import mark_rest_long

KINDS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "small": pa.int8(),
    "price": pa.float64(),
    "ok": pa.bool_(),
    "v": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
}
GOOD = [
    *(
        '{"id": 1, "v": "a"}',
        '{"v": "\\u00e9 \\n é", "id": null}',
        '{"price": 1e3, "ok": true, "day": "2026-01-02"}',
    ),
    *('{ "at" : "2026-01-02T03:04:05Z" , "small" : -7 }', '{"price": 0.1}', '{"price": -0.0}', '{"id": -0}'),
    *('{"id": 9223372036854775807}', '{"v": "}{"}', '{"v": ""}', '{"day": "no day"}', '{"more": 1, "id": 2}'),
]
ODD = [
    *(
        '{"id": 1.0}',
        '{"id": "1"}',
        '{"v": 1.50}',
        '{"v": [1]}',
        '{"id": 1}{"id": 2}',
        '{"id": 1,}',
        "{",
        "[]",
        "",
        " ",
        "x",
    ),
    *(
        '{"ID": 1}',
        '{"id": 1, "id": 2}',
        '{"id": 1, "ID": 2}',
        '{"small": 300}',
        '{"price": 1e999}',
        '{"price": NaN}',
    ),
    *(
        '{"v": "\\ud800"}',
        '{"v": "a\nb"}',
        '{"v": null}',
        "{}",
        '{"other": 1}',
        '{"id": 9223372036854775808}',
        '{"id": 01}',
    ),
    *(
        '{"v": "a\tb"}',
        '{"id": 1} ',
        '{"ok": "true"}',
        '{"ok": 1}',
        '{"at": 5}',
        "{'id': 1}",
        '{"more": {"a": 1}, "id": 1}',
    ),
    *(
        '{"id": 1',
        '"more": 2}',
        '{"more": {}',
        ',"id": 3}',
        '{"more": [{}',
        '{"v": "{}',
        '{"id": 1} // }',
        '{"v": "\\x"}',
    ),
]


def convert(texts: list[bytes], *, quick: bool, envelope: str | None = None) -> object:
    """Return the rows, and what is set aside, as a table of these columns would have them."""
    places = list(range(len(texts)))
    read = read_flat_objects if envelope is None else read_flat_changes
    rows = read(texts, places, KINDS) if quick else None
    if rows is None:
        options = FileOptions(columns=frozenset(KINDS), envelope=envelope)
        rows = read_objects(texts, places, options, ReadLimits())
    assert rows.lines is not None
    found: dict[str, object] = {"change": rows.columns[CHANGE].to_pylist() if CHANGE in rows.columns else []}
    for name, kind in KINDS.items():
        values = rows.columns.get(name, pa.nulls(rows.rows, pa.string()))
        typed = convert_to_type(values, kind, calendar=True, in_json=True)
        told = sorted((row, fault.describe(name)) for row, fault in typed.faults.items())
        found[name] = ([str(value) for value in typed.values], told)
    lines = rows.lines.tolist(), [(one.line, one.reason, one.raw) for one in rows.bad]
    return found, lines, [rows.locate_row(row) for row in range(rows.rows)], sorted({*rows.names} - {*KINDS})


@pytest.mark.parametrize("text", [*GOOD, *ODD])
@pytest.mark.parametrize("beside", ['{"id": 5, "v": "b"}', '{"id": 1}{"id": 2}'])
def test_one_object_beside_another_is_the_same_on_both_roads(text: str, beside: str) -> None:
    for texts in ([text.encode(), beside.encode()], [beside.encode(), text.encode()]):
        assert convert(texts, quick=True) == convert(texts, quick=False)


def test_objects_in_any_order_are_the_same_on_both_roads() -> None:
    chance = random.Random(7)
    for _ in range(300):
        odd = chance.choice([0, 0, 1, 3])
        texts = [chance.choice(GOOD) for _ in range(chance.randint(1, 6))] + [
            chance.choice(ODD) for _ in range(odd)
        ]
        chance.shuffle(texts)
        packed = [text.encode() for text in texts]
        assert convert(packed, quick=True) == convert(packed, quick=False), texts


def test_bytes_that_are_no_utf8_are_left_to_the_exact_road() -> None:
    assert read_flat_objects([b'{"v": "\xff"}'], [0], KINDS) is None


@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a": ', "}")])
def test_deep_values_are_left_to_the_exact_road_which_tells_them(start: str, end: str) -> None:
    for depth in (90, 200_000):  # which Arrow's reader would end the process over
        text = '{"id": 1, "more": ' + start * depth + "0" + end * depth + "}"
        texts = [b'{"id": 2}', text.encode()]
        assert (read_flat_objects(texts, [0, 1], KINDS) is None) == (depth > 100)
        assert convert(texts, quick=True) == convert(texts, quick=False)


def test_plain_objects_take_the_quick_road() -> None:
    texts = [
        json.dumps({"id": n, "v": str(n), "price": n / 4, "at": "2026-01-02 00:00:00"}).encode()
        for n in range(9)
    ]
    rows = read_flat_objects(texts, [10 + n for n in range(9)], KINDS)
    assert rows is not None and rows.columns["id"].type == pa.int64() and rows.locate_row(3)[0] == 13
    assert read_flat_objects(texts, list(range(9)), {**KINDS, "price": pa.decimal128(9, 2)}) is None


ENVELOPES = [
    *(
        '{"op": "c", "before": null, "after": %s, "source": {"ts": [1, {"a": 2}]}, "ts_ms": 1}',
        '{"op":"r","after":%s}',
    ),
    *('{"before": {"id": 3}, "after": %s, "op": "u"}', '{"op": "d", "before": %s, "after": null}'),
    *('{"schema": {"type": "struct"}, "payload": {"op": "u", "after": %s}}', ' {"op": "c",\n "after": %s} '),
]
ODD_ENVELOPES = [
    *(
        '{"op": "t", "after": %s}',
        '{"op": 1, "after": %s}',
        '{"after": %s}',
        '{"op": "d", "after": %s}',
        "%s",
    ),
    *('{"op": "c", "payload": {"op": "d", "before": %s}}', '{"op": "c", "op": "d", "before": %s}', "null"),
    *('{"op": "c", "after": null, "x": %s}', '{"op": "c", "after": 7}', '{"op": "c", "after": "%s"}', "[%s]"),
    *('{"op": "c", "after": {"id": 1}, "after": %s}', '{"op": "c", "after": %s, "source": "\\x"}'),
    *('{"op": "c", "after": %s, "source": "a\tb"}', '{"op": "c", "after": %s, "source": 01}'),
    *('{"op": "c", "after": %s, "source": NaN}', '{"op": "c", "after": %s, "source": "\\ud800"}'),
    *('{"op": "c", "after": %s, "source": 1.}', '{"op": "c", "after": %s, "source": 1e999}'),
    *('{"op": "c", "after": %s, "source": [1,]}', '{"op": "c", "after": %s} x', '{"op": "c", "after": %s'),
    *('{"payload": null, "x": %s}', '{"payload": {"after": %s}}', '{"OP": "c", "after": %s}', '{"op": "c"}'),
]


@pytest.mark.parametrize(
    "envelope", [*mark_rest_long(ENVELOPES, keep=6), *mark_rest_long(ODD_ENVELOPES, keep=6)]
)
def test_changes_of_debezium_are_the_same_on_both_roads(envelope: str) -> None:
    plain = ENVELOPES[0].replace("%s", GOOD[0]).encode()
    for row in (*GOOD, *ODD, '{"id": 1, "more": NaN}'):
        texts = [plain, envelope.replace("%s", row).encode(), plain]
        quick, exact = (convert(texts, quick=quick, envelope="debezium") for quick in (True, False))
        assert quick == exact, texts


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_plain_changes_take_the_quick_road(envelope: str) -> None:
    texts = [envelope.replace("%s", json.dumps({"id": n, "v": str(n)})).encode() for n in range(9)]
    rows = read_flat_changes(texts, [10 + n for n in range(9)], {"id": pa.int64(), "v": pa.string()})
    assert rows is not None and rows.columns["id"].to_pylist() == list(range(9))
    assert rows.locate_row(3) == (13, texts[3].decode())


def test_bytes_beside_a_change_that_are_no_utf8_are_left_to_the_exact_road() -> None:
    text = b'{"op": "c", "after": {"id": 1}, "source": "\xff"}'
    assert read_flat_changes([text], [0], KINDS) is None
    assert convert([text], quick=True, envelope="debezium") == convert(
        [text], quick=False, envelope="debezium"
    )


@pytest.mark.parametrize("depth", [90, 990, 200_000])
def test_changes_with_deep_values_are_the_same_on_both_roads(depth: int) -> None:
    text = ('{"op": "c", "after": {"id": 1}, "more": ' + "[" * depth + "]" * depth + "}").encode()
    assert convert([text], quick=True, envelope="debezium") == convert(
        [text], quick=False, envelope="debezium"
    )
