"""Settings of a session: what they may be, what is said of those without a meaning, and the forms of SET and SHOW."""

from __future__ import annotations

import pytest

from engine.sql.statements import reader as st
from engine.sql.statements.session.settings import SETTINGS, SessionSettings, WrongSetting, resolve_name
from engine.sql.statements.statement_types import Set, ShowVariable

DIALECTS = ("spark", "postgres", "risingwave")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("text", "name", "value", "local"),
    [
        ("SET rw_implicit_flush TO true", "rw_implicit_flush", "true", False),
        ("set RW_IMPLICIT_FLUSH = true;", "rw_implicit_flush", "true", False),
        ("SET SESSION statement_timeout = '5s'", "statement_timeout", "5s", False),
        ("SET LOCAL statement_timeout = 100", "statement_timeout", "100", True),
        ("SET streaming_parallelism TO DEFAULT", "streaming_parallelism", None, False),
        ("RESET streaming_parallelism", "streaming_parallelism", None, False),
        ("RESET ALL", "", None, False),
        ("SET search_path TO public, other", "search_path", "public, other", False),
        ("SET DateStyle = 'ISO, MDY'", "datestyle", "ISO, MDY", False),
        ("SET TIME ZONE 'UTC'", "timezone", "UTC", False),
        ("SET TIME ZONE LOCAL", "timezone", None, False),
        ("SET NAMES 'utf8'", "names", "utf8", False),
        ("SET x = -1", "x", "-1", False),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "transaction_read_only", "true", False),
        (
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "transaction_isolation",
            "READ COMMITTED",
            False,
        ),
    ],
)
def test_every_form_of_set(dialect: str, text: str, name: str, value: str | None, local: bool) -> None:
    found = st.parse_statement(text, dialect)
    assert isinstance(found, Set)
    assert (found.name, found.value, found.local) == (name, value, local)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SHOW rw_implicit_flush", "rw_implicit_flush"),
        ("SHOW TIME ZONE", "time zone"),
        ("SHOW TRANSACTION ISOLATION LEVEL", "transaction isolation level"),
        ("SHOW VARIABLES", None),
    ],
)
def test_every_form_of_show(text: str, name: str | None) -> None:
    for dialect in DIALECTS:
        found = st.parse_statement(text, dialect)
        assert isinstance(found, ShowVariable)
        assert found.name == name


def test_show_all_lists_settings_where_postgres_does() -> None:
    assert isinstance(st.parse_statement("SHOW ALL", "postgres"), ShowVariable)
    assert isinstance(st.parse_statement("SHOW ALL", "risingwave"), ShowVariable)
    assert isinstance(st.parse_statement("SHOW ALL", "spark"), st.Show)
    assert isinstance(st.parse_statement("SHOW ALL LIKE 'a%'", "postgres"), st.Show)


def test_a_setting_with_a_meaning_gives_no_notice() -> None:
    settings = SessionSettings(dialect="postgres")
    assert settings.put("implicit_flush", "ON") == ""
    assert settings.is_on("rw_implicit_flush")
    assert settings.put("TIME ZONE", "+00:00") == "" and settings["timezone"] == "UTC"
    assert settings.put("dialect", "spark") == "" and settings["dialect"] == "spark"
    settings.reset()
    assert settings["dialect"] == "postgres" and not settings.is_on("rw_implicit_flush")


def test_a_setting_without_a_meaning_says_so_unless_it_is_the_default() -> None:
    settings = SessionSettings()
    assert "no meaning here" in settings.put("statement_timeout", "10 s")
    assert settings["statement_timeout"] == "10 s"
    assert settings.put("statement_timeout", "0") == ""
    assert settings.put("statement_timeout", None) == ""
    assert settings["statement_timeout"] == "0"


@pytest.mark.parametrize(
    ("name", "value", "says", "hint"),
    [
        ("rw_implicit_flsh", "true", "no setting rw_implicit_flsh", "rw_implicit_flush"),
        ("nothing_like_it", "1", "no setting", "SHOW VARIABLES"),
        ("rw_implicit_flush", "maybe", "cannot be maybe", "true or false"),
        ("streaming_parallelism", "many", "cannot be many", "number of tasks"),
        ("timezone", "Europe/Paris", "cannot be Europe/Paris", "from_utc_timestamp"),
        ("client_encoding", "latin1", "cannot be latin1", "UTF8"),
        ("server_version", "17", "server_version cannot be set", "13.14"),
    ],
)
def test_a_wrong_setting_is_told_with_what_was_perhaps_meant(
    name: str, value: str, says: str, hint: str
) -> None:
    with pytest.raises(WrongSetting, match=says) as caught:
        SessionSettings().put(name, value)
    assert hint in caught.value.hint


def test_settings_become_options_of_new_views() -> None:
    settings = SessionSettings()
    assert settings.view_options() == {}
    settings.put("streaming_parallelism", "3")
    settings.put("background_ddl", "true")
    settings.put("backfill_rate_limit", "100")
    assert settings.view_options() == {
        "parallelism": "3",
        "background": "true",
        "backfill_rate_limit": "100",
    }
    settings.put("streaming_parallelism_for_materialized_view", "2")
    assert settings.view_options()["parallelism"] == "2"
    settings.put("streaming_parallelism_for_materialized_view", "0")
    settings.put("backfill_rate_limit", "-1")
    assert settings.view_options() == {"background": "true"}


def test_every_setting_can_be_set_to_its_default() -> None:
    settings = SessionSettings()
    for name, setting in SETTINGS.items():
        assert settings.put(name, setting.default) == "", name
        assert settings[name] == setting.default


def test_a_setting_of_risingwave_is_known_with_its_prefix_and_without() -> None:
    assert (
        resolve_name("RW_streaming_rate_limit")
        == resolve_name("streaming_rate_limit")
        == "streaming_rate_limit"
    )
    with pytest.raises(WrongSetting):
        resolve_name("rw_streaming_rate")
