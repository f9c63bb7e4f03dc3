"""The options of a sink that writes to a topic of Kafka: which brokers and topic, what messages look like, how much at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from engine.connectors.contract.connector import StatementProblem
from engine.connectors.kafka.settings import (
    OPTIONS,
    KafkaSettings,
    format_servers,
    parse_security,
    validate_connection,
)
from engine.sql.statements.options.option_text import parse_list

CONNECTOR = "kafka"
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
MESSAGE_BYTES = 1_000_000
TRANSACTION_SECONDS = 60
FIRST_ROWS = 100_000
"""So many first rows one transaction takes without the option."""
SECURITY = (
    *("security_protocol", "sasl_mechanism", "username", "password_variable"),
    *("ssl_ca_file", "ssl_certificate_file", "ssl_key_file", "ssl_key_password_variable"),
)
SINK_OPTIONS: Mapping[str, str] = {
    "bootstrap_servers": OPTIONS["bootstrap_servers"],
    "topic": "the topic, which has to be there, unless create_topic = true",
    "format": "json: an object a message; debezium: a change a message, in JSON; without it json",
    "envelope": "upsert: of format json, the key finds the row, and a deletion is a message without a value",
    "key": "the columns of the messages' keys, as 'region, customer'; without it the view's key, if it has one",
    "key_format": "json: an object; text: the value of the one column of the key; without it json",
    "compression": f"{', '.join(COMPRESSIONS)}; without it lz4",
    "max_message_bytes": f"how large a message may be; {MESSAGE_BYTES} without it, which topics take by default",
    "transaction_seconds": f"how long a transaction may take, 1 to 900; {TRANSACTION_SECONDS} without it",
    "transaction_rows": f"so many first rows are one transaction; {FIRST_ROWS} without it. An epoch is always one",
    "create_topic": "true: the first delivery creates the topic if there is none; false without it",
    "topic_partitions": "of create_topic, how many partitions; the broker's default without it",
    "topic_replication": "of create_topic, the number of replicas; the broker's default without it",
    **{name: OPTIONS[name] for name in SECURITY},
}
"""The options of the sink and what they mean; `docs/reference.md` is made of this."""
_NEEDED = ("bootstrap_servers", "topic")
_LIKE = "WITH (connector = 'kafka', bootstrap_servers = 'host:9092', topic = 'orders')"
_FORMATS = ("json", "debezium")
_OF_SOURCE = {
    "avro": "Avro is read from Kafka, and not written: the schema of a view's rows would have to be registered, and to follow "
    "its columns",
    "protobuf": "Protobuf is not written",
    "csv": "CSV is not written",
}
_COUNTS: Mapping[str, tuple[int, int]] = {
    "max_message_bytes": (1_000, 1_000_000_000),
    "transaction_seconds": (1, 900),
    "transaction_rows": (1, 1 << 31),
    "topic_partitions": (1, 100_000),
    "topic_replication": (1, 32_767),
}
_OF_CREATION = ("topic_partitions", "topic_replication")


@dataclass(frozen=True)
class TopicSettings:
    """The options of one sink; `connection` is what a client is opened with."""

    connection: KafkaSettings
    format: Literal["json", "debezium"]
    is_upsert: bool
    key: tuple[str, ...]
    key_format: Literal["json", "text"]
    compression: str
    max_message_bytes: int
    transaction_seconds: int
    transaction_rows: int
    creates: bool
    partitions: int
    replication: int


def validate_sink_options(options: Mapping[str, str]) -> StatementProblem | None:
    """Return the first option that is missing or means nothing, None if all do."""
    for name in _NEEDED:
        if not options.get(name, "").strip():
            return StatementProblem(
                name if name in options else "", f"the connector {CONNECTOR} needs {name}", f"write {_LIKE}"
            )
    return (
        validate_connection(options)
        or _validate_messages(options)
        or _validate_words(options)
        or _validate_counts(options)
    )


def _validate_messages(options: Mapping[str, str]) -> StatementProblem | None:
    form, envelope = options.get("format", "json"), options.get("envelope")
    if form not in _FORMATS:
        message = f"format = '{form}' is unknown"
        return StatementProblem(
            "format", _OF_SOURCE.get(form.lower(), message), f"write one of {', '.join(_FORMATS)}"
        )
    if envelope == "debezium":
        message = "envelope = 'debezium' is a format here"
        return StatementProblem("envelope", message, "write format = 'debezium'")
    if envelope is not None and envelope != "upsert":
        message = f"envelope = '{envelope}' is unknown"
        return StatementProblem("envelope", message, "write envelope = 'upsert'")
    if envelope is not None and form == "debezium":
        message = "a change of Debezium says itself what it does, and has no envelope"
        return StatementProblem("envelope", message, "leave envelope out")
    if options.get("key_format", "json") not in ("json", "text"):
        message = f"key_format = '{options['key_format']}' is not written"
        return StatementProblem("key_format", message, "write key_format = 'json' or key_format = 'text'")
    if "key" in options and not parse_key(options["key"]):
        return StatementProblem("key", "key names no column", "write key = 'region, customer'")
    return None


def _validate_words(options: Mapping[str, str]) -> StatementProblem | None:
    if options.get("compression", "lz4") not in COMPRESSIONS:
        message = f"compression = '{options['compression']}' is unknown"
        return StatementProblem("compression", message, f"write one of {', '.join(COMPRESSIONS)}")
    creates = options.get("create_topic", "false").lower()
    if creates not in ("true", "false"):
        return StatementProblem(
            "create_topic", "create_topic is true or false", "write create_topic = 'true'"
        )
    for name in _OF_CREATION:
        if name in options and creates != "true":
            hint = f"add create_topic = 'true', or leave {name} out"
            return StatementProblem(name, f"{name} is of create_topic", hint)
    return None


def _validate_counts(options: Mapping[str, str]) -> StatementProblem | None:
    for name, (least, most) in _COUNTS.items():
        text = options.get(name, str(least)).strip()
        if not text.isascii() or not text.isdecimal() or len(text) > 18 or not least <= int(text) <= most:
            message = f"{name} = '{text}' is no number from {least} to {most}"
            return StatementProblem(name, message, f"write {name} = '{least}', or leave it out")
    return None


def parse_key(text: str) -> tuple[str, ...]:
    """Return the columns that a list names, which may stand in parentheses.

    >>> parse_key("(region, customer)"), parse_key("`a, b`")
    (('region', 'customer'), ('a, b',))
    """
    text = text.strip()
    return parse_list(text[1:-1] if text.startswith("(") and text.endswith(")") else text)


def parse_sink_settings(options: Mapping[str, str]) -> TopicSettings:
    """Return the settings that options say, which are valid."""

    def count(name: str, default: int) -> int:
        return int(options.get(name, default))

    connection = KafkaSettings(
        format_servers(options), options["topic"], "json", security=parse_security(options)
    )
    return TopicSettings(
        connection,
        "debezium" if options.get("format") == "debezium" else "json",
        "envelope" in options,
        parse_key(options.get("key", "")),
        "text" if options.get("key_format") == "text" else "json",
        options.get("compression", "lz4"),
        count("max_message_bytes", MESSAGE_BYTES),
        count("transaction_seconds", TRANSACTION_SECONDS),
        count("transaction_rows", FIRST_ROWS),
        options.get("create_topic", "false").lower() == "true",
        count("topic_partitions", -1),
        count("topic_replication", -1),
    )
