"""Settings of a session: which there are, what they may be, and which of those that clients send have no meaning here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.sql.dialect import Dialect, is_dialect

DEFAULT = "default"
_TRUTH = {"on": "true", "yes": "true", "1": "true", "off": "false", "no": "false", "0": "false"}
_NUMBER = r"\d+"
_TIME = r"\d+(\.\d+)?\s*(us|ms|s|sec|min|h|d)?"
_TRUTHS = r"true|false"


@dataclass(frozen=True)
class Setting:
    """One setting: `form` is what its values are, as a pattern, and `form_text` in words.

    With a `notice` every value but the default is taken, and the notice says why nothing follows from it. One that is
    `read_only` tells what is, and cannot be set to anything else.
    """

    default: str
    form: str
    form_text: str
    meaning: str = ""
    notice: str = ""
    read_only: bool = False


def _define_setting(default: str, form: str, form_text: str, meaning: str) -> Setting:
    return Setting(default, form, form_text, meaning=meaning)


def _define_ignored(
    default: str, notice: str, form: str = r"[\s\S]*", form_text: str = "any text"
) -> Setting:
    return Setting(default, form, form_text, notice=notice)


def _define_all_ignored(notice: str, defaults: Mapping[str, str]) -> Mapping[str, Setting]:
    return {name: _define_ignored(default, notice) for name, default in defaults.items()}


def _define_read_only(value: str) -> Setting:
    return Setting(value, re.escape(value), value, read_only=True)


_PLANNER = "how a query is computed follows from the query and the sizes of its tables"
_PACE = "the engine finds this pace by itself"
_OWN_STATE = "views keep their state as their rules need it"
_STOPS = "statements are not stopped by a clock: interrupt the client, or close the session"
_ANSWERS = "answers are Arrow tables, not texts"
_COMMITS = "each statement is its own transaction, and reads one epoch"
_UTF8 = "texts are UTF-8"
_DUMPS = "there is nothing here that it would change"
_METHODS = (
    *("enable_bitmapscan", "enable_hashagg", "enable_hashjoin", "enable_indexscan", "enable_material"),
    *("enable_mergejoin", "enable_nestloop", "enable_seqscan", "enable_sort", "geqo", "jit"),
)
"""PostgreSQL's switches of one way to compute something."""

_KINDS = ("backfill", "index", "materialized_view", "sink", "source", "table")

SETTINGS: Mapping[str, Setting] = {
    # ---- of Tideline ---------------------------------------------------------------------------------------
    "dialect": _define_setting(
        "spark", "spark|postgres|risingwave", "spark, postgres or risingwave", "whose SQL is read"
    ),
    "unsafe_enable_storage_retention_for_non_append_only_tables": _define_setting(
        "false", _TRUTHS, "true or false", "whether rows of a table may hide by age that is not APPEND ONLY"
    ),
    "query_policy": _define_setting(
        "consistent",
        r"[\s\S]+",
        "consistent, latest, global, an epoch, or 'a timestamp'",
        "at which epoch a query reads",
    ),
    "timezone": _define_setting(
        "UTC",
        r"utc|etc/utc|gmt|z|[+-]?0+(:00)?",
        "UTC: timestamps are instants, shown in UTC; from_utc_timestamp(at, 'zone') gives a local time",
        "the zone in which instants are shown",
    ),
    "search_path": _define_setting(
        '"$user", public',
        r"[\s\S]*",
        "any text",
        "the schemas in which names without one are looked for; new relations are created in the first",
    ),
    "rw_implicit_flush": _define_setting(
        "false",
        _TRUTHS,
        "true or false",
        "whether INSERT, UPDATE and DELETE return when the views reflect them",
    ),
    "streaming_parallelism": _define_setting(
        DEFAULT,
        rf"{_NUMBER}|default|adaptive|auto",
        "a number of tasks; 0 and default follow the cores",
        "the option parallelism of new materialized views",
    ),
    "streaming_parallelism_for_materialized_view": _define_setting(
        DEFAULT, rf"{_NUMBER}|default|adaptive|auto", "a number of tasks", "the same, taken before the other"
    ),
    "background_ddl": _define_setting(
        "false", _TRUTHS, "true or false", "the option background of new materialized views"
    ),
    "backfill_rate_limit": _define_setting(
        DEFAULT,
        r"\d+|-1|default",
        "rows a second, 0 to pause, -1 or default for none",
        "the option backfill_rate_limit of new materialized views",
    ),
    # ---- of RisingWave, without a meaning here ----------------------------------------------------------------
    "query_mode": _define_ignored(
        "auto", "Spark decides by itself what runs where", "auto|local|distributed", "auto"
    ),
    "visibility_mode": _define_ignored(
        DEFAULT, "a view is read as it was committed", "default|all|checkpoint", "default, all or checkpoint"
    ),
    **{
        name: _define_ignored(DEFAULT, "sinks, sources, tables and indexes have no tasks of their own")
        for name in (
            "streaming_parallelism_for_backfill",
            "streaming_parallelism_for_index",
            "streaming_parallelism_for_sink",
            "streaming_parallelism_for_source",
            "streaming_parallelism_for_table",
            "streaming_max_parallelism",
            "streaming_parallelism_strategy",
            *(f"streaming_parallelism_strategy_for_{kind}" for kind in _KINDS),
            "batch_parallelism",
        )
    },
    **{
        name: _define_ignored(DEFAULT, _PLANNER)
        for name in (
            "batch_enable_distributed_dml",
            "batch_enable_lookup_join",
            "batch_enable_sort_agg",
            "enable_force_split_distinct_agg",
            "enable_index_selection",
            "enable_join_ordering",
            "enable_locality_backfill",
            "enable_share_plan",
            "batch_expr_strict_mode",
            "enable_datafusion_engine",
            "enable_mv_selection",
            "enable_two_phase_agg",
            "force_split_distinct_agg",
            "force_two_phase_agg",
            "locality_backfill_mode",
            "max_split_range_gap",
            "rw_batch_enable_lookup_join",
            "rw_batch_enable_sort_agg",
            "rw_enable_join_ordering",
            "rw_enable_share_plan",
            "rw_enable_two_phase_agg",
            "rw_force_split_distinct_agg",
            "rw_force_two_phase_agg",
            "rw_streaming_allow_jsonb_in_stream_key",
            "rw_streaming_enable_bushy_join",
            "rw_streaming_enable_delta_join",
            "streaming_allow_jsonb_in_stream_key",
            "streaming_asof_join_use_cache",
            "streaming_enable_materialized_expressions",
            "streaming_separate_sink",
            "streaming_enable_bushy_join",
            "streaming_enable_delta_join",
            "streaming_enable_unaligned_join",
            "streaming_force_filter_inside_join",
            "streaming_join_encoding",
            "streaming_join_encoding_optimized_for",
            "streaming_separate_consecutive_join",
            "streaming_use_arrangement_backfill",
            "streaming_use_shared_source",
            "streaming_use_snapshot_backfill",
        )
    },
    **{
        name: _define_ignored(DEFAULT, _PACE)
        for name in (
            *(
                "dml_rate_limit",
                "sink_rate_limit",
                "source_rate_limit",
                "streaming_rate_limit",
                "sink_decouple",
            ),
            "cdc_source_wait_streaming_start_timeout",
            *("streaming_sync_log_store_buffer_size", "streaming_sync_log_store_pause_duration_ms"),
        )
    },
    "bypass_cluster_limits": _define_ignored(
        "false", "there are no limits of a cluster", _TRUTHS, "true or false"
    ),
    "upsert_dml": _define_ignored(
        "false", "an INSERT of a known key takes the place of its row already", _TRUTHS, "true or false"
    ),
    **{
        name: _define_ignored(DEFAULT, _OWN_STATE)
        for name in (
            "create_compaction_group_for_mv",
            "rw_create_compaction_group_for_mv",
            "rw_streaming_over_window_cache_policy",
            "streaming_over_window_cache_policy",
        )
    },
    # ---- of PostgreSQL's clients ---------------------------------------------------------------------------
    "application_name": _define_ignored("", "nobody is shown it"),
    **{
        name: _define_ignored("0", _STOPS, _TIME, "a time")
        for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    },
    **_define_all_ignored(
        _ANSWERS,
        {
            "bytea_output": "hex",
            "datestyle": "ISO, MDY",
            "extra_float_digits": "1",
            "intervalstyle": "postgres",
            "lc_monetary": "C",
            "lc_numeric": "C",
            "lc_time": "C",
        },
    ),
    **_define_all_ignored(
        _COMMITS,
        {
            "default_transaction_isolation": "serializable",
            "default_transaction_read_only": "false",
            "transaction_isolation": "serializable",
            "transaction_read_only": "false",
        },
    ),
    "client_encoding": _define_ignored("UTF8", _UTF8, r"utf-?8|unicode", "UTF8"),
    "client_min_messages": _define_ignored("notice", "all notices are given", r"\w+", "a level"),
    **_define_all_ignored(
        _PLANNER,
        {
            **dict.fromkeys(_METHODS, "on"),
            "constraint_exclusion": "partition",
            "cursor_tuple_fraction": "0.1",
            "effective_cache_size": "4GB",
            "join_collapse_limit": "8",
            "maintenance_work_mem": "64MB",
            "max_parallel_workers_per_gather": "2",
            "random_page_cost": "4",
            "work_mem": "4MB",
        },
    ),
    **_define_all_ignored(
        _DUMPS,
        {
            "check_function_bodies": "true",
            "default_table_access_method": "heap",
            "default_tablespace": "",
            "default_text_search_config": "simple",
            "default_toast_compression": "pglz",
            "escape_string_warning": "on",
            "lc_messages": "C",
            "log_min_messages": "warning",
            "log_statement": "none",
            "session_replication_role": "origin",
            "synchronous_commit": "on",
            "xmloption": "content",
        },
    ),
    "row_security": _define_ignored("true", "there are no policies of rows", _TRUTHS, "true or false"),
    "synchronize_seqscans": _define_ignored(
        "true", "scans are independent of each other", _TRUTHS, "true or false"
    ),
    "standard_conforming_strings": _define_read_only("true"),
    "integer_datetimes": _define_read_only("true"),
    "server_encoding": _define_read_only("UTF8"),
    "server_version": _define_read_only("13.14.0"),
    "server_version_num": _define_read_only("130014"),
    "max_identifier_length": _define_read_only("100"),
}
"""Settings by name. What Tideline has no meaning for is listed here, so that scripts of elsewhere run and are told so."""

ALIASES: Mapping[str, str] = {
    "implicit_flush": "rw_implicit_flush",
    "time zone": "timezone",
    "names": "client_encoding",
    "transaction isolation level": "transaction_isolation",
}


class WrongSetting(Exception):
    """A setting that does not exist or cannot have a value; `hint` says what was perhaps meant."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class SessionSettings:
    """The values of one session."""

    def __init__(self, **initial: str) -> None:
        self._first = {name: setting.default for name, setting in SETTINGS.items()} | initial
        self._values = dict(self._first)

    def __getitem__(self, name: str) -> str:
        return self._values[resolve_name(name)]

    @property
    def dialect(self) -> Dialect:
        """The dialect that statements are read in."""
        word = self._values["dialect"]
        assert is_dialect(word), word
        return word

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, value and description, in the order of the names."""
        for name in sorted(SETTINGS):
            yield name, self._values[name], describe_setting(name)

    def is_on(self, name: str) -> bool:
        """Tell whether a setting that is true or false is true."""
        return self[name] == "true"

    def put(self, name: str, value: str | None) -> str:
        """Set a setting, None: to its default; returns the notice that it has no meaning here, else "". Raises WrongSetting."""
        name = resolve_name(name)
        normalized = self._first[name] if value is None else normalize_value(name, value)
        self._values[name] = normalized
        setting = SETTINGS[name]
        no_meaning = setting.notice and normalized.lower() not in (setting.default.lower(), DEFAULT)
        return f"{name} has no meaning here: {setting.notice}" if no_meaning else ""

    def reset(self) -> None:
        """Set all settings to their defaults."""
        self._values = dict(self._first)

    def view_options(self) -> dict[str, str]:
        """Return the options that a new materialized view has unless its statement says otherwise."""
        found: dict[str, str] = {}
        own = self["streaming_parallelism_for_materialized_view"]
        tasks = own if own != DEFAULT else self["streaming_parallelism"]
        if tasks.isdecimal() and int(tasks):
            found["parallelism"] = tasks
        if self.is_on("background_ddl"):
            found["background"] = "true"
        if self["backfill_rate_limit"].isdecimal():
            found["backfill_rate_limit"] = self["backfill_rate_limit"]
        return found


def resolve_name(name: str) -> str:
    """Return the name under which a setting is kept; raises WrongSetting with names that are near."""
    lower = name.lower()
    found = ALIASES.get(lower, lower)
    for known in (found, found.removeprefix("rw_")):  # RisingWave knows most of its own by both names
        if known in SETTINGS:
            return known
    near = difflib.get_close_matches(lower, [*SETTINGS, *ALIASES], 3, 0.7)
    hint = f"did you mean {', '.join(near)}?" if near else "SHOW VARIABLES lists the settings"
    raise WrongSetting(f"there is no setting {name}", hint)


def normalize_value(name: str, value: str) -> str:
    """Return a value as a known setting keeps it; raises WrongSetting."""
    setting, text = SETTINGS[name], value.strip()
    if setting.form == _TRUTHS:
        text = _TRUTH.get(text.lower(), text.lower())
    if text.lower() in (DEFAULT, setting.default.lower()) or (
        setting.read_only and _TRUTH.get(text.lower(), text) == setting.default
    ):
        return setting.default
    if setting.read_only:
        raise WrongSetting(f"{name} cannot be set", f"it is {setting.default}")
    if re.fullmatch(setting.form, text, re.IGNORECASE) is None:
        raise WrongSetting(f"{name} cannot be {text or 'empty'}", f"it is {setting.form_text}")
    if name == "timezone":
        return setting.default
    return text.lower() if setting.form_text != "any text" and name != "query_policy" else text


def describe_setting(name: str) -> str:
    """Return what a setting means, or why it means nothing."""
    setting = SETTINGS[name]
    return setting.meaning or (f"no meaning here: {setting.notice}" if setting.notice else "cannot be set")
