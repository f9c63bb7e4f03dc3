"""The options of a table that follows a topic of Kafka: which brokers, which topic, how messages are read, where it begins."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from engine.connectors.confinement import find_project_home, resolve_allowed_path
from engine.connectors.contract.connector import StatementProblem, source_options
from engine.connectors.formats.time_formats import AS_SHOWN, FORMAT_OPTIONS, Formats, validate_format
from engine.connectors.named_secrets import validate_name
from engine.errors import PathNotAllowed, SourceError
from engine.sql.catalog import Relation

CONNECTOR = "kafka"
OPTIONS: Mapping[str, str] = {
    "connector": "'kafka': rows come from the messages of a topic",
    "bootstrap_servers": "brokers that are asked first, as 'host:9092, other:9092'",
    "topic": "the topic",
    "format": "json: an object a message; debezium: a change a message, in JSON; avro: a record a message",
    "envelope": "upsert: the key of a message is the PRIMARY KEY, and a message without a value deletes its row",
    "key_format": "of envelope = 'upsert', how keys are written: json, text or avro; without it as values are",
    "schema_file": "of Avro, the file of the schema of values, which then are Avro alone",
    "key_schema_file": "of Avro, the file of the schema of keys",
    "schema_registry": "of Avro, the address of the registry whose schemas the messages name, as 'http://host:8081'",
    "schema_registry_username": "who asks the registry",
    "schema_registry_password_variable": "the name of the secret that is the password for the registry",
    "startup_mode": "where a new table begins: earliest, latest, timestamp or offsets; without it earliest",
    "startup_timestamp": "of startup_mode = 'timestamp', from when on, as '2026-01-31 00:00:00+00:00'",
    "startup_offsets": "of startup_mode = 'offsets', where each partition begins, as '0:10, 1:20'; others at their beginning",
    "on_lost": "what to do when messages were removed before they were read: fail, or earliest, which goes on with those that "
    "are left and tells what is missing; without it fail",
    "poll_messages": "so many messages one poll takes at most; 1000000 without it",
    "key_column": "the column, of the table, that the key of each message goes into",
    "partition_column": "the column that the number of the partition goes into",
    "offset_column": "the column that the offset of each message goes into",
    "timestamp_column": "the column that the timestamp of each message goes into",
    "headers_column": "the column that the headers of each message go into, as JSON",
    "security_protocol": "plaintext, ssl, sasl_plaintext or sasl_ssl; without it plaintext",
    "sasl_mechanism": "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
    "username": "the user of SASL",
    "password_variable": "the name of the secret that is the password of SASL",
    "ssl_ca_file": "the file of the certificates that sign the brokers'; without it those of the system",
    "ssl_certificate_file": "the file of the certificate of this client",
    "ssl_key_file": "the file of its key",
    "ssl_key_password_variable": "the name of the secret that is the password of that key",
    "date_format": "how DATE is written in JSON, as '%d/%m/%Y', or epoch_days; without it as ISO 8601 has it",
    "timestamp_format": "how TIMESTAMP is written in JSON, as '%d.%m.%Y %H:%M:%S', or epoch, epoch_ms, epoch_us",
    "time_format": "how TIME is written in JSON, as '%I:%M %p', or since_midnight, since_midnight_ms, since_midnight_us",
}
"""The options of the source and what they mean; `docs/reference.md` is made of this."""
METADATA: Mapping[str, tuple[str, ...]] = {
    "key_column": ("string", "binary"),
    "partition_column": ("int", "bigint"),
    "offset_column": ("bigint",),
    "timestamp_column": ("timestamp",),
    "headers_column": ("string",),
}
"""The options of columns that tell of the message, with the types that such a column may have."""
FORMATS = ("json", "debezium", "avro")
KEY_FORMATS = ("json", "text", "avro")
StartupMode = Literal["earliest", "latest", "timestamp", "offsets"]
MODES: tuple[StartupMode, ...] = ("earliest", "latest", "timestamp", "offsets")
POLL_MESSAGES = 1_000_000
MOST_MESSAGES = 10**12
_NEEDED = ("bootstrap_servers", "topic", "format")
_LIKE = "WITH (connector = 'kafka', bootstrap_servers = 'host:9092', topic = '…', format = 'json')"
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OF_SASL = ("sasl_mechanism", "username", "password_variable")
_OF_SSL = ("ssl_ca_file", "ssl_certificate_file", "ssl_key_file", "ssl_key_password_variable")
_OF_AVRO = (
    *("schema_file", "key_schema_file", "schema_registry"),
    *("schema_registry_username", "schema_registry_password_variable"),
)
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "key_format": KEY_FORMATS,
    "startup_mode": MODES,
    "on_lost": ("fail", "earliest"),
    "security_protocol": _PROTOCOLS,
    "sasl_mechanism": _MECHANISMS,
}
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):(\d{1,5})")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OFFSETS = re.compile(r"\s*(\d{1,9})\s*:\s*(\d{1,18})\s*")
_LATER = {"protobuf": "Protobuf is not read", "csv": "CSV is not read", "raw": "raw bytes are not read"}


@dataclass(frozen=True)
class KafkaSecurity:
    """How a connection is secured, and who connects; passwords are in the variables that are named."""

    protocol: str = "plaintext"
    mechanism: str = ""
    username: str = ""
    password_variable: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    key_password_variable: str = ""


@dataclass(frozen=True)
class AvroSettings:
    """Where the schemas of Avro are."""

    schema_file: str = ""
    key_schema_file: str = ""
    registry: str = ""
    registry_username: str = ""
    registry_password_variable: str = ""


@dataclass(frozen=True)
class KafkaSettings:
    """The options of one table."""

    servers: str
    topic: str
    format: Literal["json", "debezium", "avro"]
    is_upsert: bool = False
    key_format: Literal["json", "text", "avro"] = "json"
    avro: AvroSettings = AvroSettings()
    startup_mode: StartupMode = "earliest"
    startup_ms: int = 0
    startup_offsets: tuple[tuple[int, int], ...] = ()
    goes_on: bool = False
    """Whether messages that were lost are told, and do not stop the table."""
    poll_messages: int = POLL_MESSAGES
    security: KafkaSecurity = KafkaSecurity()
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """The columns that tell of the message, by their options."""
    formats: Formats = field(default_factory=Formats, hash=False)

    @property
    def address(self) -> str:
        """The topic, as messages name it."""
        return f"topic {self.topic} of Kafka at {self.servers}"


def validate_options(options: Mapping[str, str]) -> StatementProblem | None:
    """Return the first option that is missing or means nothing, None if all do."""
    for name in _NEEDED:
        if not options.get(name, "").strip():
            return StatementProblem("", f"the connector {CONNECTOR} needs {name}", f"write {_LIKE}")
    for check in (_validate_place, _validate_format, _validate_startup):
        problem = check(options)
        if problem is not None:
            return problem
    return validate_connection(options) or _validate_times(options)


def validate_connection(options: Mapping[str, str]) -> StatementProblem | None:
    """Return the first option of topic, brokers and their security that means nothing, None if all do."""
    for check in (_validate_place, _validate_choices, _validate_security, _validate_files):
        problem = check(options)
        if problem is not None:
            return problem
    return None


def parse_settings(options: Mapping[str, str]) -> KafkaSettings:
    """Return the settings that options say, which are valid."""
    form: Literal["json", "debezium", "avro"]
    form = (
        "avro" if options["format"] == "avro" else "debezium" if options["format"] == "debezium" else "json"
    )
    keys = options.get("key_format", "avro" if form == "avro" else "json")
    mode = options.get("startup_mode", "earliest")
    return KafkaSettings(
        servers=format_servers(options),
        topic=options["topic"],
        format=form,
        is_upsert="envelope" in options,
        key_format="avro" if keys == "avro" else "text" if keys == "text" else "json",
        avro=AvroSettings(
            _find_file(options, "schema_file"),
            _find_file(options, "key_schema_file"),
            options.get("schema_registry", "").rstrip("/"),
            options.get("schema_registry_username", ""),
            options.get("schema_registry_password_variable", ""),
        ),
        startup_mode=next(one for one in MODES if one == mode),
        startup_ms=parse_moment(options.get("startup_timestamp", "")) or 0,
        startup_offsets=tuple(sorted((parse_offsets(options.get("startup_offsets", "")) or {}).items())),
        goes_on=options.get("on_lost") == "earliest",
        poll_messages=int(options.get("poll_messages", POLL_MESSAGES)),
        security=parse_security(options),
        metadata=MappingProxyType({name: options[name] for name in METADATA if name in options}),
        formats=Formats(*(options.get(name) for name in FORMAT_OPTIONS)),
    )


def format_servers(options: Mapping[str, str]) -> str:
    """Return the brokers that are asked first, as librdkafka has them."""
    return ",".join(part.strip() for part in options["bootstrap_servers"].split(","))


def parse_security(options: Mapping[str, str]) -> KafkaSecurity:
    """Return how the connection is secured, by options that are valid."""
    return KafkaSecurity(
        options.get("security_protocol", "plaintext"),
        options.get("sasl_mechanism", ""),
        options.get("username", ""),
        options.get("password_variable", ""),
        _find_file(options, "ssl_ca_file"),
        _find_file(options, "ssl_certificate_file"),
        _find_file(options, "ssl_key_file"),
        options.get("ssl_key_password_variable", ""),
    )


def read_settings(relation: Relation) -> KafkaSettings:
    """Return the settings of a table; raises SourceError for options that do not fit."""
    options = source_options(relation)
    wrong = validate_options(options)
    if wrong is not None:
        raise SourceError(f"table {relation.name}: {wrong.message}: {wrong.hint}")
    return parse_settings(options)


def parse_offsets(text: str) -> dict[int, int] | None:
    """Return the offset of each partition in a text as '0:10, 1:20', None if it is none."""
    found: dict[int, int] = {}
    for part in text.split(","):
        match = _OFFSETS.fullmatch(part)
        if match is None or int(match[1]) in found:
            return None
        found[int(match[1])] = int(match[2])
    return found


def parse_moment(text: str) -> int | None:
    """Return milliseconds since 1970 of a text with its offset from UTC, None if it is none."""
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return since // datetime.timedelta(milliseconds=1)


def _validate_place(options: Mapping[str, str]) -> StatementProblem | None:
    if "@" in options["bootstrap_servers"]:
        message = "bootstrap_servers holds a user or a password, which would stand in the catalog"
        hint = "write 'host:9092', username, and password_variable = 'KAFKA_PASSWORD'"
        return StatementProblem("bootstrap_servers", message, hint)
    for server in options["bootstrap_servers"].split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or not 0 < int(found[2]) < 65_536:
            message = f"bootstrap_servers: '{server.strip()}' is no host with a port"
            return StatementProblem("bootstrap_servers", message, "write 'host:9092, other:9092'")
    topic = options["topic"]
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        hint = "letters, digits, . _ and -, 249 at most; one topic a table"
        return StatementProblem("topic", f"topic = '{topic}' is no name of a topic", hint)
    most = options.get("poll_messages", str(POLL_MESSAGES))
    if not most.strip().isdecimal() or not 0 < int(most) <= MOST_MESSAGES:
        message = f"poll_messages = '{most}' is no whole number above 0"
        return StatementProblem("poll_messages", message, f"write poll_messages = '{POLL_MESSAGES}'")
    return None


def _validate_format(options: Mapping[str, str]) -> StatementProblem | None:
    form, envelope = options["format"], options.get("envelope")
    if form not in FORMATS:
        message = f"format = '{form}' is unknown"
        if form.lower() in _LATER:
            message = f"{_LATER[form.lower()]} from Kafka"
        return StatementProblem("format", message, f"write one of {', '.join(FORMATS)}")
    if envelope == "debezium":
        return StatementProblem(
            "envelope", "envelope = 'debezium' is a format here", "write format = 'debezium'"
        )
    if envelope is not None and envelope != "upsert":
        return StatementProblem(
            "envelope", f"envelope = '{envelope}' is unknown", "write envelope = 'upsert'"
        )
    if envelope is not None and form == "debezium":
        message = "a change of Debezium says itself what it does, and has no envelope"
        return StatementProblem("envelope", message, "leave envelope out")
    if "key_format" in options and envelope is None:
        message = "key_format is of envelope = 'upsert', where keys are read"
        return StatementProblem(
            "key_format", message, "add envelope = 'upsert'; key_column keeps keys as they are"
        )
    return _validate_avro(options)


def _validate_avro(options: Mapping[str, str]) -> StatementProblem | None:
    values, keys = options["format"] == "avro", options.get("key_format", options["format"]) == "avro"
    keys = keys and "envelope" in options
    given = [name for name in _OF_AVRO if name in options]
    if given and not (values or keys):
        return StatementProblem(
            given[0], f"{given[0]} is of Avro", f"write format = 'avro', or leave {given[0]} out"
        )
    if not (values or keys):
        return None
    registry = options.get("schema_registry")
    if registry is None:
        lacking = [name for name, of in (("schema_file", values), ("key_schema_file", keys)) if of]
        for name in lacking:
            if not options.get(name, "").strip():
                message = f"Avro needs schema_registry, or {name}"
                hint = f"write schema_registry = 'http://host:8081', or {name} = 'orders.avsc'"
                return StatementProblem("format", message, hint)
    else:
        for name in ("schema_file", "key_schema_file"):
            if name in options:
                return StatementProblem(
                    name, f"schemas come from the registry, or from {name}", "leave one of them out"
                )
        parts = urlsplit(registry)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            message = "schema_registry is no address"
            return StatementProblem("schema_registry", message, "write schema_registry = 'http://host:8081'")
        if parts.username or parts.password:
            message = "schema_registry holds a user or a password, which would stand in the catalog"
            hint = (
                "write schema_registry_username, and schema_registry_password_variable = 'REGISTRY_PASSWORD'"
            )
            return StatementProblem("schema_registry", message, hint)
    user, variable = (options.get(f"schema_registry_{name}") for name in ("username", "password_variable"))
    for name, one, other in (
        ("schema_registry_username", user, variable),
        ("schema_registry_password_variable", variable, user),
    ):
        if one is not None and (other is None or registry is None):
            message = (
                f"{name} goes with the other of username and password_variable, and with schema_registry"
            )
            return StatementProblem(name, message, "write all three, or schema_registry alone")
    return validate_name(options, "schema_registry_password_variable")


def _validate_choices(options: Mapping[str, str]) -> StatementProblem | None:
    for name, known in _CHOICES.items():
        if name in options and options[name] not in known:
            return StatementProblem(
                name, f"{name} = '{options[name]}' is unknown", f"write one of {', '.join(known)}"
            )
    return None


def _validate_startup(options: Mapping[str, str]) -> StatementProblem | None:
    mode = options.get("startup_mode", "earliest")
    for name, of in (("startup_timestamp", "timestamp"), ("startup_offsets", "offsets")):
        text = options.get(name)
        if text is not None and mode != of:
            hint = f"write startup_mode = '{of}', or leave {name} out"
            return StatementProblem(name, f"{name} is of startup_mode = '{of}'", hint)
        if text is None and mode == of:
            return StatementProblem("startup_mode", f"startup_mode = '{of}' needs {name}", f"add {name}")
    if mode == "timestamp" and parse_moment(options["startup_timestamp"]) is None:
        message = f"startup_timestamp = '{options['startup_timestamp']}' is no time with its offset from UTC"
        return StatementProblem("startup_timestamp", message, "write '2026-01-31 00:00:00+00:00'")
    if mode == "offsets" and parse_offsets(options["startup_offsets"]) is None:
        message = f"startup_offsets = '{options['startup_offsets']}' does not name each partition once with an offset"
        return StatementProblem("startup_offsets", message, "write '0:10, 1:20'")
    return None


def _validate_security(options: Mapping[str, str]) -> StatementProblem | None:
    protocol = options.get("security_protocol", "plaintext")
    with_sasl, with_ssl = protocol.startswith("sasl"), protocol.endswith("ssl")
    for names, offered, wanted in ((_OF_SASL, with_sasl, "sasl_ssl"), (_OF_SSL, with_ssl, "ssl")):
        for name in names:
            if name in options and not offered:
                message = f"{name} means nothing with security_protocol = '{protocol}'"
                hint = f"write security_protocol = '{wanted}', or leave {name} out"
                return StatementProblem(name, message, hint)
    for name in _OF_SASL:
        if with_sasl and not options.get(name, "").strip():
            message = f"security_protocol = '{protocol}' needs {name}"
            return StatementProblem("security_protocol", message, f"add {', '.join(_OF_SASL)}")
    if ("ssl_certificate_file" in options) != ("ssl_key_file" in options):
        name = "ssl_certificate_file" if "ssl_certificate_file" in options else "ssl_key_file"
        return StatementProblem(
            name, "a certificate of this client goes with its key", "write both files, or neither"
        )
    if "ssl_key_password_variable" in options and "ssl_key_file" not in options:
        name = "ssl_key_password_variable"
        return StatementProblem(name, f"{name} is of ssl_key_file", "add ssl_key_file, or leave it out")
    return validate_name(options, "password_variable") or validate_name(options, "ssl_key_password_variable")


def _validate_files(options: Mapping[str, str]) -> StatementProblem | None:
    names = ("schema_file", "key_schema_file", "ssl_ca_file", "ssl_certificate_file", "ssl_key_file")
    for name in (name for name in names if name in options):
        try:
            path = Path(_find_file(options, name))
        except (PathNotAllowed, ValueError, RuntimeError) as error:
            return StatementProblem(name, f"{name} can't be used: {error}", "name a file of the project")
        if not path.is_file():
            return StatementProblem(
                name, f"there is no file {path}", f"correct {name}, or put the file there"
            )
    return None


def _validate_times(options: Mapping[str, str]) -> StatementProblem | None:
    for name, of in FORMAT_OPTIONS.items():
        if name not in options:
            continue
        if options["format"] == "avro":
            return StatementProblem(
                name, f"{name} is of JSON: Avro has times of its own", f"leave {name} out"
            )
        problem = validate_format(options[name], of)
        if problem is not None:
            hint = f"use the words of strptime, as '{AS_SHOWN[of]}'"
            return StatementProblem(name, f"{name} = {options[name]!r} can't be used: {problem}", hint)
    return None


def _find_file(options: Mapping[str, str], name: str) -> str:
    """Return the path of a file that an option names, "" if it names none; raises PathNotAllowed outside of the project."""
    text = options.get(name, "")
    if not text:
        return ""
    home = find_project_home()
    path = Path(text).expanduser()
    return str(path.resolve()) if home is None else str(resolve_allowed_path(home / path, home))
