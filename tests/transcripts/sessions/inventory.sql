-- Moves of goods between warehouses, in RisingWave's words.
-- dialect: risingwave

CREATE TABLE warehouse (id INT, name VARCHAR, PRIMARY KEY (id));

-- judge: CREATE TABLE item (sku VARCHAR PRIMARY KEY, descr VARCHAR, cost DECIMAL)
CREATE TABLE item (sku VARCHAR PRIMARY KEY, descr VARCHAR, cost DECIMAL, dims STRUCT<w INT, h INT>);

CREATE TABLE move (item VARCHAR, src INT, dst INT, qty INT, at TIMESTAMP DEFAULT '2024-01-01 00:00:00');

INSERT INTO warehouse VALUES (1, 'North'), (2, 'South'), (3, 'Port');

-- judge: INSERT INTO item VALUES ('bolt', 'Bolt M8', 0.1234), ('plank', 'Plank', 12.5), ('rope', NULL, 3)
INSERT INTO item VALUES ('bolt', 'Bolt M8', 0.1234, ROW(1, 8)), ('plank', 'Plank', 12.5, ROW(20, 200)), ('rope', NULL, 3, NULL);

INSERT INTO move (item, src, dst, qty) VALUES ('bolt', NULL, 1, 1000), ('bolt', 1, 2, 300), ('plank', NULL, 3, 40);

INSERT INTO move VALUES ('bolt', 1, 2, 300, '2024-01-02 10:00:00'), ('plank', 3, 1, 15, '2024-01-03 10:00:00'), ('rope', NULL, 2, 7, NULL);

CREATE MATERIALIZED VIEW stock AS
 SELECT w, item, sum(q) AS qty FROM (SELECT dst AS w, item, qty AS q FROM move UNION ALL SELECT src, item, -qty FROM move) m WHERE w IS NOT NULL GROUP BY w, item;

CREATE MATERIALIZED VIEW worth AS SELECT wh.name, sum(s.qty * i.cost) AS worth, count(*) FILTER (WHERE s.qty > 0) AS kinds FROM stock s JOIN warehouse wh ON wh.id = s.w JOIN item i ON i.sku = s.item GROUP BY wh.name;

CREATE MATERIALIZED VIEW duplicates AS SELECT item, src, dst, qty, count(*) AS n FROM move GROUP BY item, src, dst, qty HAVING count(*) > 1;

-- judge:
CREATE INDEX by_item ON stock (item);

FLUSH;

SELECT * FROM stock ORDER BY w, item;
--: integer | character varying | bigint
--> ["1", "bolt", "400"]
--> ["1", "plank", "15"]
--> ["2", "bolt", "600"]
--> ["2", "rope", "7"]
--> ["3", "plank", "25"]

SELECT * FROM worth ORDER BY name;
--: character varying | numeric | bigint
--> ["North", "236.8600", "2"]
--> ["Port", "312.5", "1"]
--> ["South", "95.0400", "2"]

SELECT * FROM duplicates;
--: character varying | integer | integer | integer | bigint
--> ["bolt", "1", "2", "300", "2"]

-- judge: SELECT sku, cost, CASE sku WHEN 'bolt' THEN 1 WHEN 'plank' THEN 20 END AS w FROM item ORDER BY cost
SELECT sku, cost, (dims).w FROM item ORDER BY cost;
--: character varying | numeric | integer
--> ["bolt", "0.1234", "1"]
--> ["rope", "3", null]
--> ["plank", "12.5", "20"]

DELETE FROM move WHERE item = 'bolt' AND src = 1;

FLUSH;

SELECT * FROM stock ORDER BY qty DESC, w;
--: integer | character varying | bigint
--> ["1", "bolt", "1000"]
--> ["3", "plank", "25"]
--> ["1", "plank", "15"]
--> ["2", "rope", "7"]

SELECT * FROM duplicates;
--: character varying | integer | integer | integer | bigint

SELECT * FROM worth ORDER BY worth;
--: character varying | numeric | bigint
--> ["South", "21", "1"]
--> ["North", "310.9000", "2"]
--> ["Port", "312.5", "1"]

-- judge: INSERT INTO item VALUES ('rope', 'Rope 10 m', 4.75) ON CONFLICT (sku) DO UPDATE SET descr = EXCLUDED.descr, cost = EXCLUDED.cost
INSERT INTO item (sku, descr, cost) VALUES ('rope', 'Rope 10 m', 4.75);

UPDATE move SET qty = qty * 2, at = at + INTERVAL '1 day' WHERE item = 'plank' AND src = 3 RETURNING item, qty, at;
--: character varying | integer | timestamp without time zone
--> ["plank", "30", "2024-01-04 10:00:00"]

WITH lost AS (SELECT sku FROM item WHERE cost > 4) INSERT INTO move SELECT sku, 2, NULL, 1, TIMESTAMP '2024-02-01' FROM lost RETURNING item, src, dst, qty;
--: character varying | integer | integer | integer
--> ["plank", "2", null, "1"]
--> ["rope", "2", null, "1"]

FLUSH;

SELECT w, item, qty FROM stock WHERE qty <> 0 ORDER BY w, item;
--: integer | character varying | bigint
--> ["1", "bolt", "1000"]
--> ["1", "plank", "30"]
--> ["2", "plank", "-1"]
--> ["2", "rope", "6"]
--> ["3", "plank", "10"]

SELECT name, worth, kinds FROM worth ORDER BY name;
--: character varying | numeric | bigint
--> ["North", "498.4000", "2"]
--> ["Port", "125.0", "1"]
--> ["South", "16.00", "1"]

SELECT i.sku, i.cost * 3 AS three, i.cost / 3 AS third, round(i.cost, 1) AS r, i.cost::int AS whole, i.cost::text AS t FROM item i ORDER BY i.sku;
--: character varying | numeric | numeric | numeric | integer | text
--> ["bolt", "0.3702", "0.04113333333333333333", "0.1", "0", "0.1234"]
--> ["plank", "37.5", "4.1666666666666667", "12.5", "13", "12.5"]
--> ["rope", "14.25", "1.5833333333333333", "4.8", "5", "4.75"]

SELECT avg(cost) AS a, sum(cost) AS s, avg(qty) AS q, sum(qty) AS sq FROM item JOIN move ON item.sku = move.item;
--: numeric | numeric | numeric | bigint
--> ["7.8539000000000000", "47.1234", "179.8333333333333333", "1079"]

SELECT 1.0 / 3 AS a, 2::numeric / 7 AS b, 10.00 / 4 AS c, 1e10::numeric / 3 AS d, 0.0001 / 7 AS e;
--: numeric | numeric | numeric | numeric | numeric
--> ["0.33333333333333333333", "0.28571428571428571429", "2.5000000000000000", "3333333333.33333333", "0.000014285714285714285714"]

-- differs: an average of decimals has four digits more than its values
SELECT avg(v) AS f FROM (VALUES (1.5), (2.25), (10)) t(v);
--: numeric
--> ["4.583333"]

SELECT s.w, wh.name, s.item, s.qty, rank() OVER (PARTITION BY s.item ORDER BY s.qty DESC) AS r FROM stock s JOIN warehouse wh ON wh.id = s.w ORDER BY s.item, r, s.w;
--: integer | character varying | character varying | bigint | bigint
--> ["1", "North", "bolt", "1000", "1"]
--> ["1", "North", "plank", "30", "1"]
--> ["3", "Port", "plank", "10", "2"]
--> ["2", "South", "plank", "-1", "3"]
--> ["2", "South", "rope", "6", "1"]

SELECT item, sum(qty) FILTER (WHERE dst = 1) AS to_1, sum(qty) FILTER (WHERE src = 1) AS from_1, count(*) AS moves FROM move GROUP BY item ORDER BY item;
--: character varying | bigint | bigint | bigint
--> ["bolt", "1000", null, "1"]
--> ["plank", "30", null, "3"]
--> ["rope", null, null, "2"]

SELECT item, dst, sum(qty) AS q, grouping(item, dst) AS g FROM move GROUP BY CUBE (item, dst) ORDER BY g, item, dst NULLS LAST, q;
--: character varying | integer | bigint | integer
--> ["bolt", "1", "1000", "0"]
--> ["plank", "1", "30", "0"]
--> ["plank", "3", "40", "0"]
--> ["plank", null, "1", "0"]
--> ["rope", "2", "7", "0"]
--> ["rope", null, "1", "0"]
--> ["bolt", null, "1000", "1"]
--> ["plank", null, "71", "1"]
--> ["rope", null, "8", "1"]
--> [null, "1", "1030", "2"]
--> [null, "2", "7", "2"]
--> [null, "3", "40", "2"]
--> [null, null, "2", "2"]
--> [null, null, "1079", "3"]

-- differs: an alias that is a column's name, too, is taken for the column's fields where a query is answered once
SELECT w.name FROM warehouse w WHERE EXISTS (SELECT * FROM stock s WHERE s.w = w.id AND s.qty > 100) ORDER BY w.name;
--! w

SELECT a.item, a.qty, b.qty AS other FROM move a JOIN move b ON a.item = b.item AND a.qty < b.qty ORDER BY a.item, a.qty, b.qty;
--: character varying | integer | integer
--> ["plank", "1", "30"]
--> ["plank", "1", "40"]
--> ["plank", "30", "40"]
--> ["rope", "1", "7"]

SELECT w.name, s.item, s.qty FROM warehouse w FULL OUTER JOIN stock s ON s.w = w.id AND s.item = 'bolt' ORDER BY w.name NULLS LAST, s.item, s.w;
--: character varying | character varying | bigint
--> ["North", "bolt", "1000"]
--> ["Port", null, null]
--> ["South", null, null]
--> [null, "plank", "30"]
--> [null, "plank", "-1"]
--> [null, "plank", "10"]
--> [null, "rope", "6"]

SELECT item, at FROM move ORDER BY at DESC NULLS LAST, item LIMIT 3;
--: character varying | timestamp without time zone
--> ["plank", "2024-02-01 00:00:00"]
--> ["rope", "2024-02-01 00:00:00"]
--> ["plank", "2024-01-04 10:00:00"]

SELECT extract(epoch FROM max(at) - min(at)) / 86400 AS days FROM move;
--: numeric
--> ["31.0000000000000000"]

SELECT generate_series AS n, n2 FROM generate_series(1, 5, 2), LATERAL (SELECT generate_series * 10 AS n2) x ORDER BY 1;
--: integer | integer
--> ["1", "10"]
--> ["3", "30"]
--> ["5", "50"]

SELECT CAST('12' AS INT) + '3'::INT AS a, '1.50'::DECIMAL AS b, 3.7::BIGINT AS c, (-2.5)::INT AS d, 2.5::DOUBLE PRECISION::INT AS e, 'true'::BOOL AS f, 65::VARCHAR AS g, 1e3::INT AS h;
--: integer | numeric | bigint | integer | integer | boolean | character varying | integer
--> ["15", "1.50", "4", "-3", "2", "t", "65", "1000"]

-- judge: UPDATE warehouse SET name = 'North pole' WHERE id = 1
INSERT INTO warehouse VALUES (1, 'North pole');

FLUSH;

SELECT name, kinds FROM worth ORDER BY name;
--: character varying | bigint
--> ["North pole", "2"]
--> ["Port", "1"]
--> ["South", "1"]

SELECT qty FROM move WHERE itm = 'x';
--! itm

INSERT INTO mov VALUES (1);
--! mov

INSERT INTO move VALUES ('bolt', 'one', 2, 3, NULL);
--! one

SELECT 2147483647 + 1;
--! overflow

SELECT 9223372036854775807::BIGINT * 2;
--! overflow

SELECT 40000::SMALLINT;
--! 40000

-- only: tideline, RisingWave's
SHOW INDEXES FROM stock;

ALTER MATERIALIZED VIEW worth RENAME TO value_of_stock;

SELECT name, kinds FROM value_of_stock ORDER BY name;
--: character varying | bigint
--> ["North pole", "2"]
--> ["Port", "1"]
--> ["South", "1"]

DROP VIEW worth;
--! worth

DROP MATERIALIZED VIEW IF EXISTS worth;

DROP MATERIALIZED VIEW value_of_stock;

DROP TABLE warehouse;

DELETE FROM move;

FLUSH;

SELECT count(*) FROM stock;
--: bigint
--> ["0"]
