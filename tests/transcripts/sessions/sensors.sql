-- Sensors in a greenhouse, in RisingWave's words.
-- dialect: risingwave

SET RW_IMPLICIT_FLUSH TO true;

CREATE TABLE IF NOT EXISTS sensor (id INT PRIMARY KEY, place VARCHAR, kind VARCHAR, threshold DOUBLE PRECISION);

-- judge: CREATE TABLE reading (sensor_id INT, at TIMESTAMP, value DOUBLE PRECISION, note VARCHAR);
CREATE TABLE reading (sensor_id INT, at TIMESTAMP, value DOUBLE PRECISION, note VARCHAR) APPEND ONLY;

CREATE MATERIALIZED VIEW hourly AS
SELECT sensor_id, date_trunc('hour', at) AS hour, avg(value) AS mean, min(value) AS low, max(value) AS high, count(*) AS n
FROM reading GROUP BY sensor_id, date_trunc('hour', at);

CREATE MATERIALIZED VIEW latest AS
SELECT sensor_id, at, value FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY sensor_id ORDER BY at DESC) AS rn FROM reading) t WHERE rn = 1;

CREATE MATERIALIZED VIEW alarms AS
SELECT s.place, s.kind, l.value, l.at FROM latest l JOIN sensor s ON s.id = l.sensor_id WHERE l.value > s.threshold;

INSERT INTO sensor VALUES (1, 'north', 'temp', 30.5), (2, 'south', 'temp', 31), (3, 'north', 'humidity', 0.8), (4, NULL, 'co2', NULL);

INSERT INTO reading VALUES
 (1, '2024-07-01 10:00:00', 20.5, NULL), (1, '2024-07-01 10:30:00', 22.25, 'ok'), (1, '2024-07-01 11:05:00', 31, 'hot'),
 (2, '2024-07-01 10:01:02.345', 19, NULL), (3, '2024-07-01 10:59:59.999999', 0.75, ''), (3, '2024-07-01 11:00:00', 0.85, 'wet'), (9, '2024-07-01 12:00:00', 'NaN', NULL);

SELECT * FROM hourly ORDER BY sensor_id, hour;
--: integer | timestamp without time zone | double precision | double precision | double precision | bigint
--> ["1", "2024-07-01 10:00:00", "21.375", "20.5", "22.25", "2"]
--> ["1", "2024-07-01 11:00:00", "31", "31", "31", "1"]
--> ["2", "2024-07-01 10:00:00", "19", "19", "19", "1"]
--> ["3", "2024-07-01 10:00:00", "0.75", "0.75", "0.75", "1"]
--> ["3", "2024-07-01 11:00:00", "0.85", "0.85", "0.85", "1"]
--> ["9", "2024-07-01 12:00:00", "NaN", "NaN", "NaN", "1"]

SELECT * FROM latest ORDER BY sensor_id;
--: integer | timestamp without time zone | double precision
--> ["1", "2024-07-01 11:05:00", "31"]
--> ["2", "2024-07-01 10:01:02.345", "19"]
--> ["3", "2024-07-01 11:00:00", "0.85"]
--> ["9", "2024-07-01 12:00:00", "NaN"]

SELECT place, kind, value FROM alarms ORDER BY kind;
--: character varying | character varying | double precision
--> ["north", "humidity", "0.85"]
--> ["north", "temp", "31"]

INSERT INTO reading VALUES (1, '2024-07-01 11:45:00', 18.0, 'vented'), (2, '2024-07-01 11:45:00', 33.5, NULL), (2, '2024-07-01 11:45:00', 33.5, NULL);

SELECT place, kind, value, at FROM alarms ORDER BY kind, place;
--: character varying | character varying | double precision | timestamp without time zone
--> ["north", "humidity", "0.85", "2024-07-01 11:00:00"]
--> ["south", "temp", "33.5", "2024-07-01 11:45:00"]

SELECT sensor_id, n, mean FROM hourly WHERE n > 1 ORDER BY mean;
--: integer | bigint | double precision
--> ["1", "2", "21.375"]
--> ["1", "2", "24.5"]
--> ["2", "2", "33.5"]

-- only: tideline, a promise that PostgreSQL has no word for
DELETE FROM reading WHERE sensor_id = 9;
--! APPEND ONLY

UPDATE sensor SET threshold = threshold + 3 WHERE kind = 'temp' RETURNING id, threshold;
--: integer | double precision
--> ["1", "33.5"]
--> ["2", "34"]

SELECT place, value FROM alarms ORDER BY place;
--: character varying | double precision
--> ["north", "0.85"]

SELECT r.sensor_id, coalesce(s.place, 'unknown') AS place, count(*) AS n, round(avg(r.value)::numeric, 2) AS mean FROM reading r LEFT JOIN sensor s ON s.id = r.sensor_id WHERE r.value <> 'NaN'::float8 GROUP BY r.sensor_id, s.place ORDER BY 1;
--: integer | character varying | bigint | numeric
--> ["1", "north", "4", "22.94"]
--> ["2", "south", "3", "28.67"]
--> ["3", "north", "2", "0.80"]

SELECT sensor_id, at, value, value - lag(value) OVER (PARTITION BY sensor_id ORDER BY at) AS delta FROM reading WHERE sensor_id < 3 ORDER BY sensor_id, at, value;
--: integer | timestamp without time zone | double precision | double precision
--> ["1", "2024-07-01 10:00:00", "20.5", null]
--> ["1", "2024-07-01 10:30:00", "22.25", "1.75"]
--> ["1", "2024-07-01 11:05:00", "31", "8.75"]
--> ["1", "2024-07-01 11:45:00", "18", "-13"]
--> ["2", "2024-07-01 10:01:02.345", "19", null]
--> ["2", "2024-07-01 11:45:00", "33.5", "14.5"]
--> ["2", "2024-07-01 11:45:00", "33.5", "0"]

SELECT extract(hour FROM at) AS h, count(*) AS n, count(DISTINCT sensor_id) AS s FROM reading GROUP BY extract(hour FROM at) ORDER BY h;
--: numeric | bigint | bigint
--> ["10", "4", "3"]
--> ["11", "5", "3"]
--> ["12", "1", "1"]

SELECT at, at + INTERVAL '90 minutes' AS later, at::date AS d, to_char(at, 'HH24:MI:SS.MS') AS t FROM reading WHERE sensor_id = 3 ORDER BY at;
--: timestamp without time zone | timestamp without time zone | date | text
--> ["2024-07-01 10:59:59.999999", "2024-07-01 12:29:59.999999", "2024-07-01", "10:59:59.999"]
--> ["2024-07-01 11:00:00", "2024-07-01 12:30:00", "2024-07-01", "11:00:00.000"]

SELECT at - TIMESTAMP '2024-07-01 00:00:00' AS since FROM reading WHERE sensor_id <= 2 ORDER BY at, sensor_id;
--: interval
--> ["10:00:00"]
--> ["10:01:02.345"]
--> ["10:30:00"]
--> ["11:05:00"]
--> ["11:45:00"]
--> ["11:45:00"]
--> ["11:45:00"]

SELECT value::text AS v, value::int AS i, floor(value) AS f FROM reading WHERE sensor_id IN (1, 3) ORDER BY value;
--: text | integer | double precision
--> ["0.75", "1", "0"]
--> ["0.85", "1", "0"]
--> ["18", "18", "18"]
--> ["20.5", "20", "20"]
--> ["22.25", "22", "22"]
--> ["31", "31", "31"]

SELECT value::text AS v, value = 'NaN'::double precision AS same FROM reading WHERE sensor_id = 9;
--: text | boolean
--> ["NaN", "t"]

SELECT CASE WHEN value >= 30 THEN 'hot' WHEN value < 20 THEN 'cold' END AS feel, count(*) FROM reading WHERE sensor_id < 9 GROUP BY 1 ORDER BY 1 NULLS FIRST;
--: text | bigint
--> [null, "2"]
--> ["cold", "4"]
--> ["hot", "3"]

SELECT id, place FROM sensor WHERE place IS NOT DISTINCT FROM NULL;
--: integer | character varying
--> ["4", null]

CREATE VIEW named AS SELECT r.*, s.place, s.kind FROM reading r, sensor s WHERE s.id = r.sensor_id;

CREATE MATERIALIZED VIEW per_place AS SELECT place, kind, count(*) AS n, sum(value) AS total FROM named GROUP BY place, kind;

SELECT * FROM per_place ORDER BY place, kind;
--: character varying | character varying | bigint | double precision
--> ["north", "humidity", "2", "1.6"]
--> ["north", "temp", "4", "91.75"]
--> ["south", "temp", "3", "86"]

DELETE FROM sensor WHERE id = 2;

SELECT place, kind, n FROM per_place ORDER BY place, kind;
--: character varying | character varying | bigint
--> ["north", "humidity", "2"]
--> ["north", "temp", "4"]

INSERT INTO sensor VALUES (2, 'south', 'light', 1e6), (5, 'roof', 'wind', 12.5) RETURNING id, kind, threshold;
--: integer | character varying | double precision
--> ["2", "light", "1000000"]
--> ["5", "wind", "12.5"]

SELECT place, kind, n FROM per_place ORDER BY n DESC, place;
--: character varying | character varying | bigint
--> ["north", "temp", "4"]
--> ["south", "light", "3"]
--> ["north", "humidity", "2"]

ALTER TABLE sensor ADD COLUMN owner VARCHAR;

SELECT owner, count(*) FROM sensor GROUP BY owner;
--: character varying | bigint
--> [null, "5"]

SELECT sensr_id FROM reading;
--! sensr_id

SELECT * FROM hourli;
--! hourli

SELECT value / 0 FROM reading WHERE sensor_id = 1;
--! zero

INSERT INTO sensor VALUES ('x', 'y', 'z', 1);
--! x

DROP TABLE sensor;
--! alarms

-- only: tideline, SHOW of RisingWave
SHOW MATERIALIZED VIEWS;

-- only: tideline, SHOW of RisingWave
SHOW TABLES;

DROP MATERIALIZED VIEW alarms;

DROP TABLE sensor CASCADE;

SELECT * FROM per_place;
--! per_place

SELECT count(*) FROM latest;
--: bigint
--> ["4"]
