-- What morillo/spark-declarative-pipelines-cdc reads as a stream of JSON files.
CREATE TABLE customer_events (
    payload STRUCT<before: STRING, after: STRING,
        source: STRUCT<ts_ms: BIGINT, db: STRING, collection: STRING, ord: BIGINT>, op: STRING, ts_ms: BIGINT>,
    `schema` STRING
) APPEND ONLY;
INSERT INTO customer_events VALUES
    (named_struct('before', NULL, 'after', '{"_id": {"$oid": "c1"}, "name": "Ann", "email": "a@x"}', 'source',
        named_struct('ts_ms', 1L, 'db', 'shop', 'collection', 'customers', 'ord', 1L), 'op', 'c', 'ts_ms', 1L), NULL),
    (named_struct('before', NULL, 'after', '{"_id": 42, "name": "Dan", "address": {"city": "Y"}}', 'source',
        named_struct('ts_ms', 2L, 'db', 'shop', 'collection', 'customers', 'ord', 2L), 'op', 'u', 'ts_ms', 2L), NULL),
    (named_struct('before', '{"_id": {"$oid": "c1"}}', 'after', NULL, 'source',
        named_struct('ts_ms', 3L, 'db', 'shop', 'collection', 'customers', 'ord', 3L), 'op', 'd', 'ts_ms', 3L), NULL);
