"""Texts become numbers exactly or not at all."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.sql.typing.text_values import parse_texts

DIGITS = st.text(alphabet="0123456789", max_size=40)
NUMBERS = st.builds(
    lambda sign, whole, rest, exponent: f"{sign}{whole}{rest}{exponent}",
    st.sampled_from(["", "-", "+"]),
    DIGITS,
    DIGITS.map(lambda text: f".{text}") | st.just(""),
    st.sampled_from(["", "", "", "e5", "E-3", "e+20", "e-30", "e90", "e-90"]),
)
TYPES = st.integers(1, 38).flatmap(lambda digits: st.tuples(st.just(digits), st.integers(0, digits)))


def exactly(text: str, digits: int, scale: int) -> Decimal | None:
    """Return the number that a text is, if DECIMAL(digits, scale) holds it."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    _, all_digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, all_digits)) or "0")
    shift = exponent + scale
    if shift >= 0:
        unscaled *= 10**shift
    elif unscaled % 10**-shift:
        return None
    else:
        unscaled //= 10**-shift
    return number if unscaled < 10**digits else None


@settings(max_examples=400, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=4), TYPES)
def test_a_decimal_is_the_number_that_stands_there_or_is_set_aside(
    texts: list[str], kind: tuple[int, int]
) -> None:
    found = parse_texts(pa.array(texts), pa.decimal128(*kind))
    assert found.values.to_pylist() == [exactly(text, *kind) for text in texts]
    assert found.bad.tolist() == [at for at, text in enumerate(texts) if exactly(text, *kind) is None]


@pytest.mark.parametrize("text", [".0", "-.00", "+.0", ".0e3", "0.", "00.0"])
def test_zero_is_a_whole_number_however_it_is_written(text: str) -> None:
    assert parse_texts(pa.array([text, "7"]), pa.decimal128(1, 0)).values.to_pylist() == [
        Decimal(0),
        Decimal(7),
    ]


@pytest.mark.parametrize(
    "text",
    ["9" * 39, "9" * 300, "1e-999999999", "1e999999999", "0e999999999", "1_0e1", "NaN", "Infinity", "", "."],
)
def test_what_no_decimal_holds_is_set_aside(text: str) -> None:
    assert parse_texts(pa.array(["1.5", text]), pa.decimal128(10, 2)).values.to_pylist() == [
        Decimal("1.50"),
        None,
    ]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.decimal128(10, 2)])
@pytest.mark.parametrize(
    "text", ["0xFF", "0X1f", "0xFFFFFFFFFFFFFFFF", "+-5", "-+5", "nan(5)", "NaN()", "\u0661x"]
)
def test_what_only_arrow_takes_for_a_number_is_set_aside(text: str, kind: pa.DataType) -> None:
    for texts in ([text], ["7", text], [text, "17.0"]):
        found = parse_texts(pa.array(texts), kind)
        assert [texts[at] for at in found.bad.tolist()] == [text]
        assert found.values.null_count == 1


def test_a_whole_number_may_have_a_sign_and_zeros_behind_a_point() -> None:
    texts = ["+5", "-5", "+5.0", "-5.", " 5.00 ", "-0.0"]
    assert parse_texts(pa.array(texts), pa.int8()).values.to_pylist() == [5, -5, 5, -5, 5, 0]
