-- A school's marks, without keys where a teacher does not think of them.
-- dialect: postgres

CREATE TABLE pupil (id int PRIMARY KEY, name text, born date, class text);

CREATE TABLE mark (pupil int, subject text, value numeric(3,1), given date, weight real DEFAULT 1);

CREATE TABLE IF NOT EXISTS pupil (id int PRIMARY KEY);

CREATE TABLE pupil (id int);
--! pupil

INSERT INTO pupil VALUES (1,'Zoë','2012-05-01','4A'),(2,'Yusuf','2012-11-30','4A'),(3,'Xander','2011-12-31','4B'),(4,'Wim',NULL,'4B'),(5,'Vera','2012-02-29',NULL);

INSERT INTO mark VALUES (1,'maths',7.5,'2024-01-10',1),(1,'maths',8,'2024-02-10',2),(1,'art',9.5,'2024-02-11',1),
 (2,'maths',5.5,'2024-01-10',1),(2,'maths',5.5,'2024-01-10',1),(2,'art',6,'2024-02-11',0.5),(3,'maths',10,'2024-01-10',1),(3,'art',NULL,'2024-02-11',1),(4,'maths',4.4,'2024-01-10',1);

INSERT INTO mark (pupil, subject) VALUES (9, 'ghost');

CREATE MATERIALIZED VIEW averages AS
 SELECT p.class, m.subject, count(*) AS n, count(m.value) AS marked, avg(m.value) AS mean, min(m.value) AS low, max(m.value) AS high
 FROM mark m JOIN pupil p ON p.id = m.pupil GROUP BY p.class, m.subject;

CREATE MATERIALIZED VIEW report AS
 SELECT p.id, p.name, string_agg(DISTINCT m.subject, ', ' ORDER BY m.subject) AS subjects, sum(m.value * m.weight::numeric) / nullif(sum(m.weight::numeric) FILTER (WHERE m.value IS NOT NULL), 0) AS weighted
 FROM pupil p LEFT JOIN mark m ON m.pupil = p.id GROUP BY p.id, p.name;

CREATE MATERIALIZED VIEW best AS SELECT subject, name, value FROM (
  SELECT m.subject, p.name, m.value, row_number() OVER (PARTITION BY m.subject ORDER BY m.value DESC NULLS LAST, p.name) AS r FROM mark m JOIN pupil p ON p.id = m.pupil) q WHERE r <= 2;

FLUSH;

SELECT * FROM averages ORDER BY class, subject;
--: text | text | bigint | bigint | numeric | numeric | numeric
--> ["4A", "art", "2", "2", "7.7500000000000000", "6.0", "9.5"]
--> ["4A", "maths", "4", "4", "6.6250000000000000", "5.5", "8.0"]
--> ["4B", "art", "1", "0", null, null, null]
--> ["4B", "maths", "2", "2", "7.2000000000000000", "4.4", "10.0"]

SELECT name, subjects, round(weighted, 3) AS w FROM report ORDER BY id;
--: text | text | numeric
--> ["Zoë", "art, maths", "8.250"]
--> ["Yusuf", "art, maths", "5.600"]
--> ["Xander", "art, maths", "10.000"]
--> ["Wim", "maths", "4.400"]
--> ["Vera", null, null]

SELECT * FROM best ORDER BY subject, value DESC, name;
--: text | text | numeric(3,1)
--> ["art", "Zoë", "9.5"]
--> ["art", "Yusuf", "6.0"]
--> ["maths", "Xander", "10.0"]
--> ["maths", "Zoë", "8.0"]

SELECT * FROM mark WHERE pupil = 2 ORDER BY subject, given;
--: integer | text | numeric(3,1) | date | real
--> ["2", "art", "6.0", "2024-02-11", "0.5"]
--> ["2", "maths", "5.5", "2024-01-10", "1"]
--> ["2", "maths", "5.5", "2024-01-10", "1"]

SELECT DISTINCT pupil, subject, value FROM mark WHERE pupil IN (2, 3) ORDER BY pupil, subject, value NULLS FIRST;
--: integer | text | numeric(3,1)
--> ["2", "art", "6.0"]
--> ["2", "maths", "5.5"]
--> ["3", "art", null]
--> ["3", "maths", "10.0"]

DELETE FROM mark WHERE pupil = 9 RETURNING subject, value, weight;
--: text | numeric(3,1) | real
--> ["ghost", null, "1"]

UPDATE mark SET value = value + 0.5 WHERE pupil = 2 AND subject = 'maths' RETURNING pupil, value;
--: integer | numeric(3,1)
--> ["2", "6.0"]
--> ["2", "6.0"]

INSERT INTO mark SELECT id, 'sport', 6 + id % 3, date '2024-03-01' + id, 1 FROM pupil WHERE class IS NOT NULL RETURNING pupil, value, given;
--: integer | numeric(3,1) | date
--> ["1", "7.0", "2024-03-02"]
--> ["2", "8.0", "2024-03-03"]
--> ["3", "6.0", "2024-03-04"]
--> ["4", "7.0", "2024-03-05"]

FLUSH;

SELECT class, subject, n, mean FROM averages ORDER BY 1, 2;
--: text | text | bigint | numeric
--> ["4A", "art", "2", "7.7500000000000000"]
--> ["4A", "maths", "4", "6.8750000000000000"]
--> ["4A", "sport", "2", "7.5000000000000000"]
--> ["4B", "art", "1", null]
--> ["4B", "maths", "2", "7.2000000000000000"]
--> ["4B", "sport", "2", "6.5000000000000000"]

SELECT name, subjects FROM report ORDER BY name;
--: text | text
--> ["Vera", null]
--> ["Wim", "maths, sport"]
--> ["Xander", "art, maths, sport"]
--> ["Yusuf", "art, maths, sport"]
--> ["Zoë", "art, maths, sport"]

SELECT name, born, extract(year FROM age(date '2024-09-01', born)) AS years, to_char(born, 'DD Mon YYYY') AS shown, born IS DISTINCT FROM date '2012-02-29' AS other FROM pupil ORDER BY born NULLS LAST;
--: text | date | numeric | text | boolean
--> ["Xander", "2011-12-31", "12", "31 Dec 2011", "t"]
--> ["Vera", "2012-02-29", "12", "29 Feb 2012", "f"]
--> ["Zoë", "2012-05-01", "12", "01 May 2012", "t"]
--> ["Yusuf", "2012-11-30", "11", "30 Nov 2012", "t"]
--> ["Wim", null, null, null, "t"]

SELECT class, array_agg(name ORDER BY name) AS names, json_agg(id ORDER BY id) AS ids FROM pupil GROUP BY class ORDER BY class NULLS LAST;
--: text | text[] | json
--> ["4A", "{Yusuf,Zoë}", "[1, 2]"]
--> ["4B", "{Wim,Xander}", "[3, 4]"]
--> [null, "{Vera}", "[5]"]

SELECT p.name, (SELECT max(value) FROM mark m WHERE m.pupil = p.id) AS best, (SELECT count(*) FROM mark m WHERE m.pupil = p.id AND m.value < 5.5) AS failed FROM pupil p ORDER BY 1;
--: text | numeric | bigint
--> ["Vera", null, "0"]
--> ["Wim", "7.0", "1"]
--> ["Xander", "10.0", "0"]
--> ["Yusuf", "8.0", "0"]
--> ["Zoë", "9.5", "0"]

SELECT name FROM pupil WHERE id NOT IN (SELECT pupil FROM mark WHERE subject = 'art' AND pupil IS NOT NULL) ORDER BY name;
--: text
--> ["Vera"]
--> ["Wim"]

SELECT subject, corr(value::float8, weight::float8) IS NULL AS no_line, variance(value) AS v, sum(DISTINCT value) AS s FROM mark GROUP BY subject ORDER BY subject;
--: text | boolean | numeric | numeric
--> ["art", "f", "6.1250000000000000", "15.5"]
--> ["maths", "f", "3.8016666666666667", "35.9"]
--> ["sport", "t", "0.66666666666666666667", "21.0"]

SELECT given, count(*) AS n, count(*) FILTER (WHERE value >= 5.5) AS passed, round(100.0 * count(*) FILTER (WHERE value >= 5.5) / count(*), 1) AS pct FROM mark GROUP BY given ORDER BY given;
--: date | bigint | bigint | numeric
--> ["2024-01-10", "5", "4", "80.0"]
--> ["2024-02-10", "1", "1", "100.0"]
--> ["2024-02-11", "3", "2", "66.7"]
--> ["2024-03-02", "1", "1", "100.0"]
--> ["2024-03-03", "1", "1", "100.0"]
--> ["2024-03-04", "1", "1", "100.0"]
--> ["2024-03-05", "1", "1", "100.0"]

SELECT generate_series(1, 3) AS n;
--: integer
--> ["1"]
--> ["2"]
--> ["3"]

SELECT d::date AS day, count(m.pupil) AS marks FROM generate_series(timestamp '2024-02-09', timestamp '2024-02-12', interval '1 day') AS d LEFT JOIN mark m ON m.given = d::date GROUP BY d ORDER BY d;
--: date | bigint
--> ["2024-02-09", "0"]
--> ["2024-02-10", "1"]
--> ["2024-02-11", "3"]
--> ["2024-02-12", "0"]

SELECT lower(name) AS l, reverse(name) AS r, char_length(name) AS n, octet_length(name) AS o, ascii(name) AS a, translate(name, 'aeu', '431') AS t, regexp_replace(name, '[aeiou]', '*', 'g') AS v FROM pupil ORDER BY id;
--: text | text | integer | integer | integer | text | text
--> ["zoë", "ëoZ", "3", "4", "90", "Zoë", "Z*ë"]
--> ["yusuf", "fusuY", "5", "5", "89", "Y1s1f", "Y*s*f"]
--> ["xander", "rednaX", "6", "6", "88", "X4nd3r", "X*nd*r"]
--> ["wim", "miW", "3", "3", "87", "Wim", "W*m"]
--> ["vera", "areV", "4", "4", "86", "V3r4", "V*r*"]

SELECT trim('  x '), btrim('xxaxx', 'x'), ltrim('00120', '0'), rpad('ab', 4, '.'), substr('abcdef', 2, 3), substring('abcdef' FROM 3), overlay('abcdef' PLACING 'ZZ' FROM 2 FOR 3), repeat('ab', 2), strpos('abc', 'c'), starts_with('abc', 'ab'), left('abc', -1);
--: text | text | text | text | text | text | text | text | integer | boolean | text
--> ["x", "a", "120", "ab..", "bcd", "cdef", "aZZef", "abab", "3", "t", "ab"]

SELECT regexp_matches('a1b', '([a-z])(\d)?([a-z])?', 'g');
--: text[]
--> ["{a,1,b}"]

SELECT array_position(ARRAY['a','b',NULL], NULL) AS p, array_position(ARRAY[1,2,3], 4) AS q, ARRAY[1,1,3] < ARRAY[1,2] AS lt, ARRAY[1,2] || 3 AS app, ARRAY[[1,2],[3,4]] AS m, cardinality(ARRAY[1,2,3]) AS c, (ARRAY[5,6,7])[2] AS e, 3 = ANY(ARRAY[1,2,3]) AS has;
--: integer | integer | boolean | integer[] | integer[] | integer | integer | boolean
--> ["3", null, "t", "{1,2,3}", "{{1,2},{3,4}}", "3", "6", "t"]

-- differs: the year 0 has no place in a date
SELECT to_date('12', 'MM') AS a;
--! without its year

SELECT to_date('05 Dec 2000', 'DD Mon YYYY') AS b, to_timestamp('2024-02-03 04:05:06', 'YYYY-MM-DD HH24:MI:SS') AS c, make_date(2024, 2, 29) AS d;
--: date | timestamp with time zone | date
--> ["2000-12-05", "2024-02-03 04:05:06+00", "2024-02-29"]

SELECT name, (1, id) IN (SELECT 1, pupil FROM mark WHERE subject = 'sport') AS sporty FROM pupil ORDER BY id;
--: text | boolean
--> ["Zoë", "t"]
--> ["Yusuf", "t"]
--> ["Xander", "t"]
--> ["Wim", "t"]
--> ["Vera", "f"]

SELECT extract(day FROM interval '3 days 04:05:06') AS d, extract(hour FROM interval '3 days 04:05:06') AS h, extract(month FROM interval '14 months') AS m, extract(year FROM interval '14 months') AS y, extract(epoch FROM interval '90 minutes') AS e;
--: numeric | numeric | numeric | numeric | numeric
--> ["3", "4", "2", "1", "5400.000000"]

INSERT INTO mark VALUES (1, 'maths', 100.5, '2024-01-01', 1);
--! 100.5

INSERT INTO mark VALUES (1, 'maths', 'seven', '2024-01-01', 1);
--! seven

INSERT INTO mark (pupil, subjct) VALUES (1, 'x');
--! subjct

INSERT INTO pupil VALUES (6, 'too', '2012-01-01', '4A', 'many');
--! pupil

UPDATE pupil SET clas = '4C';
--! clas

SELECT name, count(*) FROM pupil;
--! name

SELECT foo(name) FROM pupil;
--! foo

SELEC name FROM pupil;
--! SELEC

SELECT name FROM pupil WHERE;
--! line

SELECT 'abc' + 1;
--! abc

WITH moved AS (SELECT id FROM pupil WHERE class = '4B') UPDATE pupil SET class = '4C' WHERE id IN (SELECT id FROM moved) RETURNING id, class;
--: integer | text
--> ["3", "4C"]
--> ["4", "4C"]

DELETE FROM pupil WHERE name = 'Wim';

FLUSH;

SELECT * FROM averages ORDER BY class, subject;
--: text | text | bigint | bigint | numeric | numeric | numeric
--> ["4A", "art", "2", "2", "7.7500000000000000", "6.0", "9.5"]
--> ["4A", "maths", "4", "4", "6.8750000000000000", "6.0", "8.0"]
--> ["4A", "sport", "2", "2", "7.5000000000000000", "7.0", "8.0"]
--> ["4C", "art", "1", "0", null, null, null]
--> ["4C", "maths", "1", "1", "10.0000000000000000", "10.0", "10.0"]
--> ["4C", "sport", "1", "1", "6.0000000000000000", "6.0", "6.0"]

SELECT subject, name FROM best ORDER BY subject, name;
--: text | text
--> ["art", "Yusuf"]
--> ["art", "Zoë"]
--> ["maths", "Xander"]
--> ["maths", "Zoë"]
--> ["sport", "Yusuf"]
--> ["sport", "Zoë"]

CREATE OR REPLACE VIEW passing AS SELECT id, weighted >= 5.5 AS ok FROM report;

SELECT p.name, coalesce(ok::text, 'none') AS ok FROM passing JOIN pupil p USING (id) ORDER BY p.name;
--: text | text
--> ["Vera", "none"]
--> ["Xander", "true"]
--> ["Yusuf", "true"]
--> ["Zoë", "true"]

EXPLAIN SELECT 1;
-- only: tideline, plans differ

DROP VIEW passing; DROP TABLE IF EXISTS nothing_here;
SELECT count(*) FROM mark;
--: bigint
--> ["13"]
