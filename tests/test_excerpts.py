"""An error shows its place in a statement, and no password that stands there."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.excerpts import MOST_LETTERS, show_place

SECRETS = [
    ("bootstrap_servers = 'me:hunter2@host:9092', topic = 't'", "'***@host:9092', topic = 't'"),
    ("bootstrap_servers = 'a:1,me:hun,ter2@host:9092'", "'***@host:9092'"),
    ("bootstrap_servers = 'kafka://me:hun''ter/2@3@host:9092'", "'kafka://***@host:9092'"),
    ("bootstrap_servers = 'me:hunter2@host:9092", "'***@host:9092"),
    ("url = \"https://me:hunter2@host/x\", a = 'b'", "\"https://***@host/x\", a = 'b'"),
    ("-- kafka://me:hunter2@host it is", "kafka://***@host it is"),
    ("password = 'hunter2', x = 'y'", "password = '***', x = 'y'"),
    ("SASL_PASSWORD='hun''ter2')", "SASL_PASSWORD='***')"),
    ("password = hunter2, x = 'y'", "password = ***, x = 'y'"),
    ("sasl.jaas.config = 'x password=\"hunter2\";'", "sasl.jaas.config = '***'"),
    ("password_variable = 'hunter 2'", "password_variable = '***'"),
    ("client_secret = 'hunter2", "client_secret = '***"),
    ("token = 'hunter2'", "token = '***'"),
    ("'x.api-key' = 'hunter2'", "'x.api-key' = '***'"),
    ("access_key = 'hunter2'", "access_key = '***'"),
    ("credentials='hunter2'", "credentials='***'"),
    ("\"password\" = 'hunter2'", "\"password\" = '***'"),
    (r"password = 'hun\'ter2', x = 'y'", "password = '***', x = 'y'"),
    (r"url = 'http://me:it\'s hunter2@host'", "'http://***@host'"),
    ("password = E'hunter2', x = 'y'", "password = ***, x = 'y'"),
    ("password = 'hun' 'ter2', x = 'y'", "password = '***', x = 'y'"),
    ("password = $a$hun ter2$a$, x = 'y'", "password = ***, x = 'y'"),
    ("password => 'hunter2'", "password => '***'"),
    ("password == 'hunter2'", "password == '***'"),
    ('\'{"password": "hunter2"}\'', '{"password": "***"}'),
    ("PASSWORD 'hunter2', x = 'y'", "PASSWORD '***', x = 'y'"),
    ("password /* is */ = /* this: */ 'hunter2'", "password /* is */ = /* this: */ '***'"),
    ("url = 'http://host?password=x,hun(ter2)&x=y'", "'http://host?password=***&x=y'"),
    ("/* don't */ bootstrap_servers = 'a:1,me:x hunter2@host'", "'***@host'"),
]
STATEMENTS = [
    ("password =\n 'hunter2', x = 'y'", " '***', x = 'y'"),
    ("password\n = 'hunter2', x = 'y'", " = '***', x = 'y'"),
    ("password = -- it is\n 'hunter2'", " '***'"),
    ("password = 'hun\nter2', x = 'y'", "***', x = 'y'"),
    ("sasl.jaas.config = 'x\n password=hunter2;', x = 'y'", "***', x = 'y'"),
    ("bootstrap_servers = 'me:\nhunter2@host'", "***@host'"),
    ("bootstrap_servers = 'me:hunter2\n@host'", "***'"),
    ("-- don't\nbootstrap_servers = 'a:1,me:x hunter2@host'", "'***@host'"),
]
"""Statements in which a password, or what tells that it is one, stands on another line than an error."""


@pytest.mark.parametrize(("line", "shown"), SECRETS, ids=range(len(SECRETS)))
def test_a_password_is_not_shown(line: str, shown: str) -> None:
    message = str(SqlError("no", sql=f"SELECT 1\n{line}", line=2, column=1))
    assert shown in message and "hun" not in message and "ter2" not in message, message


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("sql", "shown"), STATEMENTS, ids=range(len(STATEMENTS)))
def test_a_password_is_not_shown_on_another_line(sql: str, shown: str, end: str) -> None:
    lines = [show_place(sql.replace("\n", end), line, 2).split("\n")[0] for line in (1, 2)]
    assert not any("hun" in line or "ter2" in line for line in lines), lines
    assert any(line.endswith(shown.rstrip("'")) or line.endswith(shown) for line in lines), lines


@pytest.mark.parametrize(
    "line",
    [
        "password_variable = 'SHOP_PASSWORD', password = secret 'SHOP', x = SECRET shop",
        "WITH (at = '2026-01-01 10:00:00', mail = 'a@b.c', url = 's3://bucket/a@b')",
        "SELECT a::int, b @> c FROM t AS OF '10:00' WHERE x = 'b'",
        "tokens = 5, token_count = 'b', access_key_id = 'c'",
    ],
)
def test_what_is_none_is_shown_as_it_is(line: str) -> None:
    assert show_place(line, 1, 3) == f"{line}\n      ^"


@pytest.mark.parametrize(
    ("word", "shown"), [("WITH", "WITH"), ("topic", "topic"), ("x:hunter2", "***"), ("hunter2", "***")]
)
def test_the_mark_stands_below_its_word(word: str, shown: str) -> None:
    line = "WITH (bootstrap_servers = 'x:hunter2@h:1', topic = 't', password = 'hunter3')"
    text, mark = show_place(line, 1, line.index(word) + 1).split("\n")
    assert text == "WITH (bootstrap_servers = '***@h:1', topic = 't', password = '***')"
    assert mark.index("^") - 4 == text.index(shown)


def test_a_place_outside_of_the_text_has_a_mark_alone() -> None:
    assert show_place("SELECT 1", 3, 2) == "\n     ^"


@pytest.mark.parametrize(
    "filler", ["#", "passw", "passw=", "passw/*", "a=", "a:", "a/", "'", "a.", " ", "x://", "secret=1 "]
)
def test_a_long_line_is_shown_around_its_mark(filler: str) -> None:
    line = filler * (1_000_000 // len(filler)) + " here password = 'hunter2' " + filler * 1_000
    text, mark = show_place(line, 1, line.index("here") + 1).split("\n")
    assert len(text) <= MOST_LETTERS + 2 and "hunter2" not in text
    assert text[mark.index("^") - 4 :].startswith("here") or filler == "'"


def test_what_is_cut_off_is_said_by_dots() -> None:
    assert show_place("x" * 500, 1, 1).split("\n")[0] == "x" * MOST_LETTERS + "…"
    text, mark = show_place("x" * 500, 1, 500).split("\n")
    assert text == "…" + "x" * MOST_LETTERS and len(mark) == 4 + MOST_LETTERS + 1
