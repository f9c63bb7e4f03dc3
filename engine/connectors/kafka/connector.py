"""The connector of Kafka: what CREATE TABLE asks of options and brokers, and the trial of a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.connectors.contract.connector import Connector, Spark, StatementProblem
from engine.connectors.contract.discovery import FoundTable
from engine.connectors.kafka.avro import NotAvro, SchemaRegistry, load_fastavro, read_schema_file
from engine.connectors.kafka.client import KafkaClient, TopicState, load_kafka
from engine.connectors.kafka.discovery import discover_tables
from engine.connectors.kafka.positions import TOPIC, decode_partition, decode_topic
from engine.connectors.kafka.settings import (
    CONNECTOR,
    METADATA,
    OPTIONS,
    KafkaSettings,
    parse_settings,
    read_settings,
    validate_options,
)
from engine.connectors.kafka.source import KafkaSource
from engine.errors import SourceError
from engine.hummock import Hummock
from engine.sql.catalog import Relation
from engine.sql.statements.statement_types import CreateTable


class KafkaConnector(Connector):
    """Messages of a topic, whose splits are its partitions."""

    name = CONNECTOR
    options = OPTIONS
    statement = "CREATE TABLE t (…) WITH (connector = 'kafka', topic = '…', …)"
    page = "kafka.md"
    schemes = ("kafka",)
    can_resync = True

    def validate(self, statement: CreateTable) -> StatementProblem | None:
        """Return which option is missing or means nothing, or which column does not fit the options."""
        options = {name: value for name, value in statement.options.items() if name in OPTIONS}
        return (
            validate_options(options)
            or _validate_key(statement, options)
            or _validate_metadata(statement, options)
        )

    def check_reading(self, statement: CreateTable, spark: Spark) -> None:
        """Refuse a topic that cannot be looked at, and schemas that cannot be read."""
        options = {name: value for name, value in statement.options.items() if name in OPTIONS}
        settings = parse_settings(options)
        found = _look(settings)
        for partition, offset in settings.startup_offsets:
            span = found.partitions.get(partition)
            if span is None or not span.begin <= offset <= span.end:
                have = "is not there" if span is None else f"holds offsets {span.begin} to {span.end}"
                raise SourceError(f"startup_offsets begins partition {partition} at {offset}, but it {have}")

    def discover_tables(self, place: str, options: Mapping[str, str]) -> Iterator[FoundTable]:
        """Return the topics that the brokers have."""
        return discover_tables(place, options)

    def open_source(self, store: Hummock, relation: Relation) -> KafkaSource:
        """Return the source of a table."""
        return KafkaSource(store, relation)

    def try_source(self, store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
        """Say that the brokers answer, how many messages the topic holds, and where the source goes on."""
        settings = read_settings(relation)
        found = _look(settings)
        who = f" as {settings.security.username}" if settings.security.username else ""
        yield f"Kafka at {settings.servers} answers{who}, and has the topic {settings.topic}"
        held = sum(span.end - span.begin for span in found.partitions.values())
        _read_one(settings, found)
        yield f"its {len(found.partitions)} partitions hold about {held:,} messages, of which one was read"
        yield _describe_resuming(store, relation, found)


def _look(settings: KafkaSettings) -> TopicState:
    """Return the topic; raises SourceError if it, or a schema, cannot be had."""
    load_kafka()
    if settings.format == "avro" or (settings.is_upsert and settings.key_format == "avro"):
        load_fastavro()
        _check_schemas(settings)
    return KafkaClient(settings).look_at_topic()


def _check_schemas(settings: KafkaSettings) -> None:
    avro = settings.avro
    for path in filter(None, (avro.schema_file, avro.key_schema_file)):
        read_schema_file(path)
    if avro.schema_file and not read_schema_file(avro.schema_file).is_record:
        raise SourceError(f"the file {avro.schema_file} holds a schema that is no record")
    if avro.registry:
        try:
            SchemaRegistry(avro).ask("/subjects")
        except NotAvro as error:
            raise SourceError(str(error)) from error


def _read_one(settings: KafkaSettings, found: TopicState) -> None:
    for partition, span in found.partitions.items():
        if span.begin < span.end:
            with KafkaClient(settings).open_reader() as reader:
                reader.read(partition, span.begin, span.begin + 1, 1)
            return


def _describe_resuming(store: Hummock, relation: Relation, found: TopicState) -> str:
    if relation.name not in store.version.tables:
        return "it would begin where startup_mode says"
    source = KafkaSource(store, relation)
    topic = decode_topic(source.find_offset(TOPIC))
    if topic is None:
        return "it begins where startup_mode says"
    if topic.topic_id != found.topic_id:
        raise SourceError(
            f"the topic {source.settings.topic} was deleted and made again: ALTER TABLE … RESYNC goes on"
        )
    behind = 0
    for partition, span in found.partitions.items():
        position = decode_partition(source.find_offset(str(partition)))
        at = topic.starts.get(partition, span.begin) if position is None else position.next
        if not span.begin <= at <= span.end:
            raise SourceError(
                f"partition {partition} stands at offset {at}, but holds {span.begin} to {span.end}: the next poll says more"
            )
        behind += span.end - at
    return f"it goes on behind what is committed, {behind:,} messages behind"


def _validate_key(statement: CreateTable, options: dict[str, str]) -> StatementProblem | None:
    needs = "envelope = 'upsert'" if "envelope" in options else "format = 'debezium'"
    if "envelope" in options or options["format"] == "debezium":
        at = "envelope" if "envelope" in options else "format"
        if not statement.primary_key:
            message = f"{needs} needs a PRIMARY KEY, by which messages find their rows"
            return StatementProblem(at, message, "write PRIMARY KEY (…) in the list of columns")
        if statement.append_only:
            message = f"{statement.name} is APPEND ONLY, but messages of {needs} change and delete rows"
            return StatementProblem(at, message, "leave APPEND ONLY out")
    if options.get("key_format") == "text" and len(statement.primary_key) != 1:
        message = f"a key that is a text is one column, and the PRIMARY KEY has {len(statement.primary_key)}"
        return StatementProblem("key_format", message, "write key_format = 'json', or a key of one column")
    return _validate_columns(statement)


def _validate_columns(statement: CreateTable) -> StatementProblem | None:
    if statement.on_conflict not in ("", "overwrite", "error") or statement.version_columns:
        message = "rows of messages overwrite those of the same key"
        return StatementProblem("", message, "leave ON CONFLICT out, or write OVERWRITE")
    for column in statement.columns:
        if column.generated is not None:
            message = f"column {column.name} is generated, which messages do not get"
            return StatementProblem("", message, "compute it in a view over the table")
    return None


def _validate_metadata(statement: CreateTable, options: dict[str, str]) -> StatementProblem | None:
    columns = {column.name.lower(): column for column in statement.columns}
    taken: dict[str, str] = {}
    for option in (option for option in METADATA if option in options):
        name = options[option]
        column = columns.get(name.lower())
        if column is None:
            message = f"{option} = '{name}' names no column of the table"
            return StatementProblem(option, message, f"add the column: {name} {METADATA[option][0].upper()}")
        if column.type not in METADATA[option]:
            kinds = " or ".join(kind.upper() for kind in METADATA[option])
            message = f"{option}: column {name} is {column.visible_type}"
            return StatementProblem(option, message, f"make it {kinds}")
        if name.lower() in taken:
            message = f"{option} and {taken[name.lower()]} name one column"
            return StatementProblem(option, message, "give each a column of its own")
        taken[name.lower()] = option
        if "envelope" in options and name.lower() in {key.lower() for key in statement.primary_key}:
            message = f"{option} = '{name}' is of the PRIMARY KEY, which the key of each message gives"
            return StatementProblem(option, message, "name another column")
    return None
