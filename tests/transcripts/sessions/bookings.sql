-- Tickets of a theatre, in Spark's words.
-- dialect: spark

CREATE TABLE show (id INT PRIMARY KEY, title STRING NOT NULL, starts TIMESTAMP, price DECIMAL(8,2), `hall name` STRING);

CREATE TABLE booking (id BIGINT PRIMARY KEY, show_id INT, who STRING, seats ARRAY<STRING>, paid DOUBLE, booked DATE, extra MAP<STRING, STRING>);

INSERT INTO show VALUES
 (1, 'Hamlet', TIMESTAMP '2024-05-01 20:00:00', 25.50, 'Great Hall'), (2, 'Macbeth', TIMESTAMP '2024-05-02 20:00:00', 30, 'Great Hall'),
 (3, 'Improv', TIMESTAMP '2024-05-02 22:30:00', 12.25, 'Cellar'), (4, 'Rehearsal', NULL, NULL, NULL);

INSERT INTO booking VALUES
 (10, 1, 'Ann', array('A1', 'A2'), 51.0, DATE '2024-04-01', map('via', 'web')), (11, 1, 'Bo', array('B1'), 25.5, DATE '2024-04-02', NULL), (12, 2, 'Ann', array('C1', 'C2', 'C3'), 90, DATE '2024-04-02', map('via', 'desk', 'gift', 'yes')),
 (13, 3, 'Cy', array(), 0, DATE '2024-04-30', map()), (14, 9, 'Di', NULL, NULL, NULL, NULL);

CREATE MATERIALIZED VIEW sold AS SELECT s.id, s.title, count(b.id) AS bookings, sum(size(b.seats)) AS seats, sum(b.paid) AS paid FROM show s LEFT JOIN booking b ON b.show_id = s.id GROUP BY s.id, s.title;

CREATE MATERIALIZED VIEW seats AS SELECT b.show_id, seat, b.who FROM booking b LATERAL VIEW explode(b.seats) t AS seat;

CREATE MATERIALIZED VIEW guests AS SELECT who, count(*) AS n, collect_list(show_id) AS shows, min(booked) AS first FROM booking GROUP BY who;

CREATE MATERIALIZED VIEW earning AS SELECT title, paid / seats AS per_seat FROM sold WHERE seats > 0;

FLUSH;

SELECT * FROM sold ORDER BY id;
--: bigint | text | bigint | bigint | double
--> ["1", "Hamlet", "2", "3", "76.5"]
--> ["2", "Macbeth", "1", "3", "90.0"]
--> ["3", "Improv", "1", "0", "0.0"]
--> ["4", "Rehearsal", "0", null, null]

SELECT * FROM seats ORDER BY show_id, seat;
--: bigint | text | text
--> ["1", "A1", "Ann"]
--> ["1", "A2", "Ann"]
--> ["1", "B1", "Bo"]
--> ["2", "C1", "Ann"]
--> ["2", "C2", "Ann"]
--> ["2", "C3", "Ann"]

SELECT who, n, sort_array(shows) AS shows, first FROM guests ORDER BY who;
--: text | bigint | bigint[] | date
--> ["Ann", "2", "{\"1\",\"2\"}", "2024-04-01"]
--> ["Bo", "1", "{\"1\"}", "2024-04-02"]
--> ["Cy", "1", "{\"3\"}", "2024-04-30"]
--> ["Di", "1", "{\"9\"}", null]

SELECT title, round(per_seat, 2) AS p FROM earning ORDER BY title;
--: text | double
--> ["Hamlet", "25.5"]
--> ["Macbeth", "30.0"]

SELECT title, date_format(starts, 'yyyy-MM-dd HH:mm') AS at, dayofweek(starts) AS dow, date_trunc('DAY', starts) AS day, `hall name` FROM show ORDER BY id;
--: text | text | bigint | timestamp | text
--> ["Hamlet", "2024-05-01 20:00", "4", "2024-05-01 00:00:00+00:00", "Great Hall"]
--> ["Macbeth", "2024-05-02 20:00", "5", "2024-05-02 00:00:00+00:00", "Great Hall"]
--> ["Improv", "2024-05-02 22:30", "5", "2024-05-02 00:00:00+00:00", "Cellar"]
--> ["Rehearsal", null, null, null, null]

SELECT id, extra['via'] AS via, element_at(seats, 1) AS first, array_contains(seats, 'A2') AS a2, concat_ws('+', seats) AS all FROM booking WHERE seats IS NOT NULL AND size(seats) > 0 ORDER BY id;
--: bigint | text | text | boolean | text
--> ["10", "web", "A1", "t", "A1+A2"]
--> ["11", null, "B1", "f", "B1"]
--> ["12", "desk", "C1", "f", "C1+C2+C3"]

SELECT who, paid, rank() OVER (PARTITION BY show_id ORDER BY paid DESC) AS r, sum(paid) OVER (ORDER BY id) AS running FROM booking ORDER BY id;
--: text | double | bigint | double
--> ["Ann", "51.0", "1", "51.0"]
--> ["Bo", "25.5", "2", "76.5"]
--> ["Ann", "90.0", "1", "166.5"]
--> ["Cy", "0.0", "1", "166.5"]
--> ["Di", null, "1", "166.5"]

SELECT nvl(`hall name`, 'nowhere') AS hall, count(*) AS n, avg(price) AS mean FROM show GROUP BY ALL ORDER BY hall;
--: text | bigint | numeric
--> ["Cellar", "1", "12.250000"]
--> ["Great Hall", "2", "27.750000"]
--> ["nowhere", "1", null]

SELECT title, price * 1.09 AS gross, CAST(price AS INT) AS i, price / 3 AS third, price DIV 7 AS d, price % 7 AS m FROM show ORDER BY id;
--: text | numeric | bigint | numeric | bigint | numeric
--> ["Hamlet", "27.7950", "25", "8.500000", "3", "4.50"]
--> ["Macbeth", "32.7000", "30", "10.000000", "4", "2.00"]
--> ["Improv", "13.3525", "12", "4.083333", "1", "5.25"]
--> ["Rehearsal", null, null, null, null, null]

UPDATE booking SET paid = paid + 5, who = upper(who) WHERE show_id = 1;

DELETE FROM booking WHERE who = 'Di';

INSERT INTO booking (id, show_id, who, seats, paid, booked) SELECT id + 100, show_id, 'Group', seats, NULL, booked + 1 FROM booking WHERE paid > 50;

FLUSH;

SELECT id, title, bookings, seats, paid FROM sold ORDER BY id;
--: bigint | text | bigint | bigint | double
--> ["1", "Hamlet", "3", "5", "86.5"]
--> ["2", "Macbeth", "2", "6", "90.0"]
--> ["3", "Improv", "1", "0", "0.0"]
--> ["4", "Rehearsal", "0", null, null]

SELECT show_id, count(*) AS n FROM seats GROUP BY show_id ORDER BY show_id;
--: bigint | bigint
--> ["1", "5"]
--> ["2", "6"]

SELECT who, n FROM guests ORDER BY who;
--: text | bigint
--> ["ANN", "1"]
--> ["Ann", "1"]
--> ["BO", "1"]
--> ["Cy", "1"]
--> ["Group", "2"]

SELECT s.title, b.who FROM show s LEFT ANTI JOIN booking b ON b.show_id = s.id;
--! who

SELECT s.title FROM show s LEFT ANTI JOIN booking b ON b.show_id = s.id ORDER BY title;
--: text
--> ["Rehearsal"]

SELECT s.title FROM show s LEFT SEMI JOIN booking b ON b.show_id = s.id ORDER BY title;
--: text
--> ["Hamlet"]
--> ["Improv"]
--> ["Macbeth"]

SELECT title FROM show WHERE id IN (SELECT show_id FROM booking WHERE who LIKE 'A%') ORDER BY title;
--: text
--> ["Hamlet"]
--> ["Macbeth"]

SELECT id, CASE WHEN paid IS NULL THEN 'open' WHEN paid >= 50 THEN 'much' ELSE 'some' END AS class, coalesce(paid, 0) AS p, if(paid > 30, 'x', 'y') AS xy FROM booking ORDER BY id;
--: bigint | text | double | text
--> ["10", "much", "56.0", "x"]
--> ["11", "some", "30.5", "x"]
--> ["12", "much", "90.0", "x"]
--> ["13", "some", "0.0", "y"]
--> ["110", "open", "0.0", "y"]
--> ["112", "open", "0.0", "y"]

SELECT datediff(DATE '2024-05-01', booked) AS days, add_months(booked, 1) AS later, last_day(booked) AS ld, year(booked) AS y, booked + INTERVAL 2 DAYS AS two FROM booking ORDER BY id;
--: bigint | date | date | bigint | date
--> ["30", "2024-05-01", "2024-04-30", "2024", "2024-04-03"]
--> ["29", "2024-05-02", "2024-04-30", "2024", "2024-04-04"]
--> ["29", "2024-05-02", "2024-04-30", "2024", "2024-04-04"]
--> ["1", "2024-05-30", "2024-04-30", "2024", "2024-05-02"]
--> ["29", "2024-05-02", "2024-04-30", "2024", "2024-04-04"]
--> ["28", "2024-05-03", "2024-04-30", "2024", "2024-04-05"]

SELECT substring('Spark SQL', 5, 4) AS a, instr('abc', 'c') AS b, initcap('hello world') AS c, lpad('7', 3, '0') AS d, regexp_replace('a1b2', '[0-9]', '#') AS e, split('a,b,c', ',') AS f, translate('abc', 'ab', 'xy') AS g, 'a' || 1 AS h, reverse('abc') AS i;
--: text | bigint | text | text | text | text[] | text | text | text
--> ["k SQ", "3", "Hello World", "007", "a#b#", "{\"a\",\"b\",\"c\"}", "xyc", "a1", "cba"]

SELECT CAST('12' AS INT) + 1 AS a, '3' * 2 AS b, 7 / 2 AS c, 7 DIV 2 AS d, -7 % 3 AS e, pmod(-7, 3) AS f, round(2.5) AS g, bround(2.5) AS h, CAST(2.9 AS INT) AS i, CAST('x' AS BINARY) AS j, 1e3 AS k, 10L AS l, 1.5BD AS m, 2.5D AS n;
--: bigint | bigint | double | bigint | bigint | bigint | numeric | numeric | bigint | binary | double | bigint | numeric | double
--> ["13", "6", "3.5", "3", "-1", "2", "3", "2", "2", "\\x78", "1000.0", "10", "1.5", "2.5"]

SELECT transform(sequence(1, 4), x -> x * x) AS sq, filter(array(1, 2, 3), x -> x > 1) AS f, aggregate(array(1, 2, 3), 0, (a, x) -> a + x) AS s, array_join(array('a', NULL, 'b'), ',') AS j, exists(array(1, NULL), x -> x IS NULL) AS e;
--: bigint[] | bigint[] | bigint | text | boolean
--> ["{\"1\",\"4\",\"9\",\"16\"}", "{\"2\",\"3\"}", "6", "a,b", "t"]

SELECT who, sum(paid) FILTER (WHERE paid > 20) AS big FROM booking GROUP BY who HAVING count(*) > 0 ORDER BY who;
--: text | double
--> ["ANN", "56.0"]
--> ["Ann", "90.0"]
--> ["BO", "30.5"]
--> ["Cy", null]
--> ["Group", null]

SELECT show_id, who, sum(paid) AS p FROM booking GROUP BY show_id, who WITH ROLLUP ORDER BY show_id NULLS LAST, who NULLS LAST;
--: bigint | text | double
--> ["1", "ANN", "56.0"]
--> ["1", "BO", "30.5"]
--> ["1", "Group", null]
--> ["1", null, "86.5"]
--> ["2", "Ann", "90.0"]
--> ["2", "Group", null]
--> ["2", null, "90.0"]
--> ["3", "Cy", "0.0"]
--> ["3", null, "0.0"]
--> [null, null, "176.5"]

WITH x AS (SELECT show_id, max(paid) AS m FROM booking GROUP BY show_id) SELECT s.title, x.m FROM x JOIN show s ON s.id = x.show_id ORDER BY x.m DESC NULLS LAST;
--: text | double
--> ["Macbeth", "90.0"]
--> ["Hamlet", "56.0"]
--> ["Improv", "0.0"]

SELECT titel FROM show;
--! titel

SELECT * FROM shows;
--! shows

SELECT 1 / 0;
--! zero

SELECT CAST('abc' AS INT);
--! abc

SELECT nosuch(title) FROM show;
--! nosuch

INSERT INTO show VALUES (1, 2);
--! show

-- only: tideline, a key of Tideline's
INSERT INTO show (id, title) VALUES (1, 'Twice');
--! keys that exist

ALTER TABLE show ADD COLUMN sold_out BOOLEAN;

-- judge: UPDATE show SET sold_out = id IN (1, 2, 3)
UPDATE show SET sold_out = id IN (SELECT show_id FROM booking);

SELECT id, sold_out FROM show ORDER BY id;
--: bigint | boolean
--> ["1", "t"]
--> ["2", "t"]
--> ["3", "t"]
--> ["4", "f"]

CREATE OR REPLACE VIEW open_shows AS SELECT title FROM show WHERE NOT sold_out;

SELECT * FROM open_shows;
--: text
--> ["Rehearsal"]

SELECT explode(seats) AS seat FROM booking WHERE id = 12 ORDER BY seat;
--: text
--> ["C1"]
--> ["C2"]
--> ["C3"]

SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(n, s) ORDER BY n DESC;
--: bigint | text
--> ["2", "b"]
--> ["1", "a"]

SELECT id, posexplode(seats) FROM booking WHERE id < 12 ORDER BY id, pos;
--: bigint | bigint | text
--> ["10", "0", "A1"]
--> ["10", "1", "A2"]
--> ["11", "0", "B1"]

FLUSH;

SELECT title, round(per_seat, 3) AS p FROM earning ORDER BY title;
--: text | double
--> ["Hamlet", "17.3"]
--> ["Macbeth", "15.0"]
