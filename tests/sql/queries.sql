Queries whose results are compared with DuckDB's, over the tables of test_results.py. A block: a title after two dashes, the query.
-- exists
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)
-- not exists
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)
-- exists with another condition
SELECT id FROM t WHERE EXISTS (SELECT * FROM u WHERE u.a = t.a AND u.c <> t.b)
-- not exists with another condition only
SELECT id FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE u.c > t.b)
-- exists uncorrelated
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.c = 3)
-- not exists uncorrelated of nothing
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM nothing)
-- exists of a whole aggregate
SELECT id FROM t WHERE EXISTS (SELECT count(*) FROM u WHERE u.a = t.a)
-- exists of a whole aggregate with having
SELECT id FROM t WHERE EXISTS (SELECT count(*) FROM u WHERE u.a = t.a HAVING count(*) > 5)
-- exists in an or
SELECT id FROM t WHERE b = 1 OR EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c = 1)
-- exists with another condition in an or
SELECT id FROM t WHERE b = 1 OR NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c > t.b)
-- exists as a value
SELECT id, EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AS e FROM t
-- in
SELECT id FROM t WHERE a IN (SELECT a FROM u)
-- in correlated
SELECT id FROM t WHERE a IN (SELECT a FROM u WHERE u.s = t.s)
-- not in with nulls
SELECT id FROM t WHERE a NOT IN (SELECT a FROM u)
-- not in without nulls on the right
SELECT id FROM t WHERE a NOT IN (SELECT a FROM v WHERE c = 1)
-- not in of nothing keeps null
SELECT id FROM t WHERE a NOT IN (SELECT a FROM nothing)
-- not in correlated
SELECT id FROM t WHERE a NOT IN (SELECT a FROM u WHERE u.s = t.s)
-- not in correlated by an inequality
SELECT id FROM t WHERE a NOT IN (SELECT a FROM u WHERE u.c > t.b)
-- not in known columns
SELECT id FROM v WHERE a NOT IN (SELECT x.a FROM v x WHERE x.c = 2)
-- in as a value
SELECT id, a IN (SELECT a FROM u) AS i, a NOT IN (SELECT a FROM u WHERE a IS NOT NULL) AS n FROM t
-- in as a correlated value
SELECT id, a IN (SELECT a FROM u WHERE u.s = t.s) AS i FROM t
-- in in an or
SELECT id FROM t WHERE a IN (SELECT a FROM u) OR b IN (SELECT c FROM u)
-- in of pairs
SELECT id FROM t WHERE (a, b) IN (SELECT a, c FROM u)
-- not in of pairs
SELECT id FROM t WHERE (a, b) NOT IN (SELECT a, c FROM u)
-- in of a grouped subquery
SELECT id FROM t WHERE a IN (SELECT a FROM u GROUP BY a HAVING count(*) > 5)
-- scalar
SELECT id, (SELECT max(c) FROM u) AS m FROM t
-- scalar of nothing
SELECT id, (SELECT max(c) FROM nothing) AS m, (SELECT count(*) FROM nothing) AS n FROM t
-- scalar compared
SELECT id FROM t WHERE b > (SELECT avg(c) FROM u)
-- scalar correlated
SELECT id, (SELECT max(c) FROM u WHERE u.a = t.a) AS m FROM t
-- scalar count correlated
SELECT id, (SELECT count(*) FROM u WHERE u.a = t.a) AS n FROM t
-- scalar count in an expression
SELECT id, (SELECT count(*) * 2 + 1 FROM u WHERE u.a = t.a) AS n FROM t
-- scalar sum with having
SELECT id, (SELECT sum(c) FROM u WHERE u.a = t.a HAVING count(*) > 5) AS n FROM t
-- scalar correlated by an inequality
SELECT id, (SELECT count(*) FROM u WHERE u.c < t.b) AS n FROM t
-- scalar with the outer column in its result
SELECT id, (SELECT max(u.c) + t.b FROM u WHERE u.a = t.a) AS n FROM t
-- scalar with the outer column inside the aggregate
SELECT id, (SELECT max(u.c + t.b) FROM u WHERE u.a = t.a) AS n FROM t
-- scalar by key
SELECT id, (SELECT u.s FROM u WHERE u.id = t.a) AS s FROM t
-- scalar of one row
SELECT id, (SELECT v.a FROM v WHERE v.id = 2) AS x FROM t
-- scalar compared with equality
SELECT id FROM t WHERE b = (SELECT max(c) FROM u WHERE u.a = t.a)
-- scalar over a subquery in from
SELECT id, (SELECT max(n) FROM (SELECT u.s, count(*) AS n FROM u WHERE u.a = t.a GROUP BY u.s) q) AS n FROM t
-- scalar over a union
SELECT id, (SELECT count(*) FROM (SELECT a FROM u WHERE u.a = t.a UNION ALL SELECT a FROM v WHERE v.a = t.a) q) AS n FROM t
-- scalar with limit
SELECT id, (SELECT c FROM u WHERE u.a = t.a ORDER BY c DESC NULLS LAST, id LIMIT 1) AS n FROM t
-- scalar two levels deep
SELECT id, (SELECT max(c) FROM u WHERE u.a = t.a AND u.c < (SELECT max(v.a) FROM v WHERE v.c = u.c)) AS n FROM t
-- scalar that reads two levels up
SELECT id, (SELECT count(*) FROM u WHERE u.a = t.a AND EXISTS (SELECT 1 FROM v WHERE v.a = t.b AND v.c = u.c)) AS n FROM t
-- scalar in having
SELECT a, count(*) AS n FROM t GROUP BY a HAVING count(*) > (SELECT count(*) / 10 FROM u)
-- scalar in having correlated
SELECT a, count(*) AS n FROM t GROUP BY a HAVING count(*) > (SELECT count(*) FROM u WHERE u.a = t.a)
-- scalar over groups
SELECT a, count(*) AS n, (SELECT max(c) FROM u WHERE u.a = t.a) AS m FROM t GROUP BY a
-- scalar inside an aggregate
SELECT a, sum((SELECT count(*) FROM u WHERE u.a = t.a)) AS m FROM t GROUP BY a
-- group by a scalar
SELECT (SELECT count(*) FROM u WHERE u.a = t.a) AS k, count(*) AS n FROM t GROUP BY 1
-- any
SELECT id FROM t WHERE b < ANY (SELECT c FROM u)
-- all
SELECT id FROM t WHERE b >= ALL (SELECT c FROM u WHERE c IS NOT NULL)
-- all with nulls
SELECT id, b >= ALL (SELECT c FROM u) AS x, b < ANY (SELECT c FROM u) AS y FROM t
-- all of nothing
SELECT id FROM t WHERE b > ALL (SELECT c FROM nothing)
-- equal any
SELECT id FROM t WHERE a = ANY (SELECT a FROM u)
-- unequal all
SELECT id FROM t WHERE a <> ALL (SELECT a FROM u WHERE a IS NOT NULL)
-- all correlated
SELECT id, b > ALL (SELECT c FROM u WHERE u.a = t.a) AS x FROM t
-- lateral
SELECT t.id, q.c FROM t, LATERAL (SELECT c FROM u WHERE u.a = t.a) q
-- lateral aggregate
SELECT t.id, q.n FROM t CROSS JOIN LATERAL (SELECT count(*) AS n FROM u WHERE u.a = t.a) q
-- left lateral
SELECT t.id, q.c FROM t LEFT JOIN LATERAL (SELECT c FROM u WHERE u.a = t.a AND u.c > t.b) q ON true
-- left lateral with a condition
SELECT t.id, q.c FROM t LEFT JOIN LATERAL (SELECT c, id FROM u WHERE u.a = t.a) q ON q.c = t.b
-- lateral limit
SELECT t.id, q.id AS u FROM t, LATERAL (SELECT id FROM u WHERE u.a = t.a ORDER BY id DESC LIMIT 2) q
-- full join
SELECT t.id, u.id AS i, t.s, u.c FROM t FULL JOIN u ON t.a = u.a AND t.b > 2
-- full join using
SELECT a, t.id, u.id AS i FROM t FULL JOIN u USING (a)
-- full joins in a row
SELECT t.id, u.id AS i, v.id AS j FROM t FULL JOIN u ON t.id = u.c FULL JOIN v ON v.id = t.id
-- full join filtered
SELECT t.id, u.id AS i FROM t FULL JOIN u ON t.a = u.a WHERE u.id IS NULL
-- right join
SELECT t.id, u.id AS i FROM t RIGHT JOIN u ON t.a = u.a AND u.c > 1 AND t.b > 1
-- cross join
SELECT t.id, v.id AS i FROM t CROSS JOIN v
-- theta join
SELECT t.id, v.id AS i FROM t JOIN v ON t.b > v.a
-- theta left join
SELECT t.id, u.id AS i FROM t LEFT JOIN u ON t.b > u.c AND u.c > 2
-- theta full join
SELECT t.id, u.id AS i FROM t FULL JOIN u ON t.b > u.c + 1
-- join without a condition on both
SELECT t.id, u.id AS i FROM t JOIN u ON t.b > 3 AND u.c = 1
-- comma join by an inequality
SELECT t.id, v.id AS i FROM t, v WHERE t.b > v.a AND v.c = 1
-- natural join
SELECT * FROM (SELECT a, s, id AS i FROM t) x NATURAL JOIN (SELECT a, s, id AS j FROM u) y
-- natural left join
SELECT * FROM (SELECT a, id AS i FROM t) x NATURAL LEFT JOIN (SELECT a, c, id AS j FROM u) y
-- null-safe join
SELECT t.id, u.id AS i FROM t JOIN u ON t.a IS NOT DISTINCT FROM u.a AND t.b = u.c
-- null-safe join alone
SELECT t.id, u.id AS i FROM t LEFT JOIN u ON t.a IS NOT DISTINCT FROM u.a
-- self join
SELECT x.id, y.id AS i FROM t x JOIN t y ON x.a = y.a AND x.id < y.id
-- common factor of an or
SELECT t.id, u.id AS i FROM t, u WHERE (t.a = u.a AND t.b = 1) OR (t.a = u.a AND u.c = 2)
-- common factor swallows a branch
SELECT t.id, u.id AS i FROM t, u WHERE (t.a = u.a AND t.b = 1) OR t.a = u.a
-- subquery in on
SELECT t.id, u.id AS i FROM t JOIN u ON t.a = u.a AND u.c = (SELECT max(c) FROM v)
-- order by is no order of a view
SELECT id FROM t ORDER BY a DESC
-- limit
SELECT id, b FROM t ORDER BY b DESC NULLS LAST, id LIMIT 5
-- limit and offset
SELECT id, b FROM t ORDER BY b, id LIMIT 5 OFFSET 3
-- limit by what is not selected
SELECT id FROM t ORDER BY m NULLS FIRST, id LIMIT 4
-- limit over groups
SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY count(*) DESC, s NULLS FIRST LIMIT 2
-- limit over distinct
SELECT DISTINCT b FROM t ORDER BY b NULLS LAST LIMIT 3
-- limit in a subquery
SELECT q.id FROM (SELECT id, b FROM t ORDER BY b NULLS FIRST, id LIMIT 7) q WHERE q.b > 0
-- fetch first
SELECT id FROM t ORDER BY id FETCH FIRST 3 ROWS ONLY
