-- Log events of some machines, in Spark's words.
-- dialect: spark

CREATE TABLE machine (name STRING PRIMARY KEY, zone STRING, cores INT);

CREATE TABLE event (machine STRING, at TIMESTAMP_NTZ, level STRING, text STRING, fields STRUCT<code: INT, path: STRING>);

INSERT INTO machine VALUES ('web-1', 'eu', 4), ('web-2', 'eu', 8), ('db-1', 'us', 16), ('idle', NULL, 1);

INSERT INTO event VALUES
 ('web-1', TIMESTAMP_NTZ '2024-06-01 00:00:01', 'INFO', 'GET /index 200 in 12ms', named_struct('code', 200, 'path', '/index')),
 ('web-1', TIMESTAMP_NTZ '2024-06-01 00:00:02.5', 'WARN', 'GET /missing 404 in 3ms', named_struct('code', 404, 'path', '/missing')),
 ('web-2', TIMESTAMP_NTZ '2024-06-01 00:59:59', 'ERROR', 'POST /pay 500 in 1200ms', named_struct('code', 500, 'path', '/pay')),
 ('web-2', TIMESTAMP_NTZ '2024-06-01 00:59:59', 'ERROR', 'POST /pay 500 in 1200ms', named_struct('code', 500, 'path', '/pay')),
 ('db-1', TIMESTAMP_NTZ '2024-06-01 01:30:00', 'INFO', 'checkpoint', NULL), ('gone', TIMESTAMP_NTZ '2024-06-02 12:00:00', 'ERROR', 'panic: "x"', named_struct('code', NULL, 'path', NULL));

CREATE MATERIALIZED VIEW levels AS SELECT level, count(*) AS n, count(DISTINCT machine) AS machines, max(at) AS last FROM event GROUP BY level;

CREATE MATERIALIZED VIEW by_zone AS SELECT m.zone, e.level, count(*) AS n FROM event e JOIN machine m ON m.name = e.machine GROUP BY m.zone, e.level;

CREATE MATERIALIZED VIEW slow AS SELECT machine, at, CAST(regexp_extract(text, 'in ([0-9]+)ms', 1) AS INT) AS ms FROM event WHERE text RLIKE 'in [0-9]+ms';

CREATE MATERIALIZED VIEW pairs AS SELECT a.name AS a, b.name AS b FROM machine a JOIN machine b ON a.zone <=> b.zone AND a.name < b.name;

FLUSH;

SELECT * FROM levels ORDER BY level;
--: text | bigint | bigint | timestamp_ntz
--> ["ERROR", "3", "2", "2024-06-02 12:00:00"]
--> ["INFO", "2", "2", "2024-06-01 01:30:00"]
--> ["WARN", "1", "1", "2024-06-01 00:00:02.500000"]

SELECT * FROM by_zone ORDER BY zone, level;
--: text | text | bigint
--> ["eu", "ERROR", "2"]
--> ["eu", "INFO", "1"]
--> ["eu", "WARN", "1"]
--> ["us", "INFO", "1"]

SELECT machine, ms FROM slow ORDER BY machine, ms;
--: text | bigint
--> ["web-1", "3"]
--> ["web-1", "12"]
--> ["web-2", "1200"]
--> ["web-2", "1200"]

SELECT * FROM pairs ORDER BY a, b;
--: text | text
--> ["web-1", "web-2"]

SELECT machine, fields.code AS code, fields.path, fields FROM event ORDER BY at, machine;
--: text | bigint | text | record
--> ["web-1", "200", "/index", "(\"200\",\"/index\")"]
--> ["web-1", "404", "/missing", "(\"404\",\"/missing\")"]
--> ["web-2", "500", "/pay", "(\"500\",\"/pay\")"]
--> ["web-2", "500", "/pay", "(\"500\",\"/pay\")"]
--> ["db-1", null, null, null]
--> ["gone", null, null, "(,)"]

SELECT date_format(at, 'HH:mm:ss.SSS') AS t, hour(at) AS h, unix_micros(CAST(at AS TIMESTAMP)) AS us, at + INTERVAL '1' HOUR AS later, at - INTERVAL 90 MINUTES AS earlier FROM event ORDER BY at, t;
--: text | bigint | bigint | timestamp_ntz | timestamp_ntz
--> ["00:00:01.000", "0", "1717200001000000", "2024-06-01 01:00:01", "2024-05-31 22:30:01"]
--> ["00:00:02.500", "0", "1717200002500000", "2024-06-01 01:00:02.500000", "2024-05-31 22:30:02.500000"]
--> ["00:59:59.000", "0", "1717203599000000", "2024-06-01 01:59:59", "2024-05-31 23:29:59"]
--> ["00:59:59.000", "0", "1717203599000000", "2024-06-01 01:59:59", "2024-05-31 23:29:59"]
--> ["01:30:00.000", "1", "1717205400000000", "2024-06-01 02:30:00", "2024-06-01 00:00:00"]
--> ["12:00:00.000", "12", "1717329600000000", "2024-06-02 13:00:00", "2024-06-02 10:30:00"]

SELECT split(text, ' ')[0] AS verb, length(text) AS n, upper(level) AS l, text LIKE '%"%' AS q, trim(BOTH 'g' FROM 'ggxg') AS t FROM event ORDER BY text;
--: text | bigint | text | boolean | text
--> ["GET", "22", "INFO", "f", "x"]
--> ["GET", "23", "WARN", "f", "x"]
--> ["POST", "23", "ERROR", "f", "x"]
--> ["POST", "23", "ERROR", "f", "x"]
--> ["checkpoint", "10", "INFO", "f", "x"]
--> ["panic:", "10", "ERROR", "t", "x"]

SELECT level, machine, at, lag(at) OVER (PARTITION BY machine ORDER BY at) AS before, count(*) OVER (PARTITION BY level) AS of_level FROM event ORDER BY machine, at;
--: text | text | timestamp_ntz | timestamp_ntz | bigint
--> ["INFO", "db-1", "2024-06-01 01:30:00", null, "2"]
--> ["ERROR", "gone", "2024-06-02 12:00:00", null, "3"]
--> ["INFO", "web-1", "2024-06-01 00:00:01", null, "2"]
--> ["WARN", "web-1", "2024-06-01 00:00:02.500000", "2024-06-01 00:00:01", "1"]
--> ["ERROR", "web-2", "2024-06-01 00:59:59", null, "3"]
--> ["ERROR", "web-2", "2024-06-01 00:59:59", "2024-06-01 00:59:59", "3"]

INSERT INTO event VALUES ('idle', TIMESTAMP_NTZ '2024-06-03 00:00:00', 'DEBUG', NULL, NULL);

DELETE FROM event WHERE level = 'ERROR' AND fields.code = 500;

UPDATE machine SET zone = 'eu' WHERE name = 'db-1';

FLUSH;

SELECT level, n, machines, last FROM levels ORDER BY level;
--: text | bigint | bigint | timestamp_ntz
--> ["DEBUG", "1", "1", "2024-06-03 00:00:00"]
--> ["ERROR", "1", "1", "2024-06-02 12:00:00"]
--> ["INFO", "2", "2", "2024-06-01 01:30:00"]
--> ["WARN", "1", "1", "2024-06-01 00:00:02.500000"]

SELECT zone, level, n FROM by_zone ORDER BY zone NULLS LAST, level;
--: text | text | bigint
--> ["eu", "INFO", "2"]
--> ["eu", "WARN", "1"]
--> [null, "DEBUG", "1"]

SELECT * FROM pairs ORDER BY a, b;
--: text | text
--> ["db-1", "web-1"]
--> ["db-1", "web-2"]
--> ["web-1", "web-2"]

SELECT m.name, e.level FROM machine m FULL OUTER JOIN event e ON e.machine = m.name ORDER BY m.name NULLS LAST, e.level;
--: text | text
--> ["db-1", "INFO"]
--> ["idle", "DEBUG"]
--> ["web-1", "INFO"]
--> ["web-1", "WARN"]
--> ["web-2", null]
--> [null, "ERROR"]

SELECT level FROM event UNION SELECT zone FROM machine ORDER BY level;
--: text
--> [null]
--> ["DEBUG"]
--> ["ERROR"]
--> ["INFO"]
--> ["WARN"]
--> ["eu"]

SELECT name FROM machine MINUS SELECT machine FROM event ORDER BY name;
--: text
--> ["web-2"]

SELECT count(*) AS n, count(fields) AS f, count_if(level = 'INFO') AS info, any_value(cores) IS NOT NULL AS c FROM event LEFT JOIN machine ON machine = name;
--: bigint | bigint | bigint | boolean
--> ["5", "3", "2", "t"]

SELECT zone, sum(cores) AS c, max_by(name, cores) AS biggest, percentile(cores, 0.5) AS p, stddev(cores) AS sd FROM machine GROUP BY zone ORDER BY zone;
--: text | bigint | text | double | double
--> [null, "1", "idle", "1.0", null]
--> ["eu", "28", "db-1", "8.0", "6.110100926607787"]

SELECT name, cores FROM machine WHERE cores > (SELECT avg(cores) FROM machine) ORDER BY name;
--: text | bigint
--> ["db-1", "16"]
--> ["web-2", "8"]

SELECT zone, name, row_number() OVER (PARTITION BY zone ORDER BY cores DESC) AS r FROM machine QUALIFY r = 1 ORDER BY name;
--: text | text | bigint
--> ["eu", "db-1", "1"]
--> [null, "idle", "1"]

SELECT zone, CASE zone WHEN 'eu' THEN 1 ELSE 0 END AS e, cores BETWEEN 4 AND 8 AS mid, cores IN (1, 16) AS edge FROM machine ORDER BY cores;
--: text | bigint | boolean | boolean
--> [null, "0", "f", "t"]
--> ["eu", "1", "t", "f"]
--> ["eu", "1", "t", "f"]
--> ["eu", "1", "f", "t"]

SELECT GROUPING(zone) AS g, zone, sum(cores) AS c FROM machine GROUP BY CUBE (zone) ORDER BY g, zone;
--: bigint | text | bigint
--> ["0", null, "1"]
--> ["0", "eu", "28"]
--> ["1", null, "29"]

SELECT json_tuple('{"a": 1, "b": "x"}', 'a', 'b');
--: text | text
--> ["1", "x"]

SELECT get_json_object('{"a": {"b": [1, 2]}}', '$.a.b[1]') AS j, to_json(named_struct('k', 1)) AS t, from_json('{"x": 5}', 'x INT').x AS x;
--: text | text | bigint
--> ["2", "{\"k\":1}", "5"]

SELECT to_date('2024-02-29') AS d, to_timestamp('2024-01-01 10:00:00') AS t, date_add(DATE '2024-02-28', 2) AS a, months_between(DATE '2024-03-31', DATE '2024-02-29') AS m, next_day(DATE '2024-06-01', 'MON') AS n, weekofyear(DATE '2024-12-30') AS w, make_date(2024, 1, 31) AS md;
--: date | timestamp | date | double | date | bigint | date
--> ["2024-02-29", "2024-01-01 10:00:00+00:00", "2024-03-01", "1.0", "2024-06-03", "1", "2024-01-31"]

SELECT TRY_CAST('x' AS INT) AS a, CAST(true AS INT) AS b, CAST(1.55 AS DECIMAL(3, 1)) AS c, CAST(DATE '2024-01-01' AS STRING) AS d, CAST(1e20 AS STRING) AS e, CAST(0.1F AS DOUBLE) AS f, STRING(5) AS g, hex(255) AS h, conv('ff', 16, 10) AS i;
--: bigint | bigint | numeric | text | text | double | text | text | text
--> [null, "1", "1.6", "2024-01-01", "1.0E20", "0.10000000149011612", "5", "FF", "255"]

SELECT cors FROM machine;
--! cors

SELECT e.nope FROM event e;
--! nope

SELECT CAST(300 AS TINYINT);
--! overflow

SELECT 2147483647 + 1;
--! overflow

SELECT array(1, 2)[5];
--! 5

CREATE TABLE event (id INT);
--! event

DROP TABLE nothing;
--! nothing

DROP TABLE IF EXISTS nothing;

CREATE VIEW calm AS SELECT * FROM event WHERE level IN ('INFO', 'DEBUG');

SELECT machine, level FROM calm ORDER BY machine;
--: text | text
--> ["db-1", "INFO"]
--> ["idle", "DEBUG"]
--> ["web-1", "INFO"]

CREATE MATERIALIZED VIEW calm_zones AS SELECT m.zone, count(*) AS n FROM calm c JOIN machine m ON m.name = c.machine GROUP BY m.zone;

INSERT INTO event SELECT name, TIMESTAMP_NTZ '2024-07-01 00:00:00', 'INFO', 'hello from ' || name, NULL FROM machine;

FLUSH;

SELECT * FROM calm_zones ORDER BY zone;
--: text | bigint
--> [null, "2"]
--> ["eu", "5"]

SELECT level, n FROM levels ORDER BY n DESC, level;
--: text | bigint
--> ["INFO", "6"]
--> ["DEBUG", "1"]
--> ["ERROR", "1"]
--> ["WARN", "1"]

SELECT a, b FROM pairs WHERE a LIKE 'web%' ORDER BY b;
--: text | text
--> ["web-1", "web-2"]
