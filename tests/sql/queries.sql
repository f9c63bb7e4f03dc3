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
-- union
SELECT a FROM t UNION SELECT a FROM u
-- union of different integers
SELECT a, s FROM t UNION SELECT c, s FROM u UNION SELECT c, NULL FROM v
-- union all of unions
(SELECT a FROM t UNION SELECT a FROM u) UNION ALL SELECT a FROM v
-- union over union all
SELECT a FROM t UNION ALL SELECT a FROM u UNION SELECT a FROM v
-- intersect
SELECT a, s FROM t INTERSECT SELECT a, s FROM u
-- intersect all
SELECT a FROM t INTERSECT ALL SELECT a FROM u
-- except
SELECT a, s FROM t EXCEPT SELECT a, s FROM u
-- except all
SELECT a FROM t EXCEPT ALL SELECT a FROM u
-- set operations bind as written
SELECT a FROM t INTERSECT SELECT a FROM u UNION SELECT c FROM v ORDER BY 1 LIMIT 3
-- union joined with a union
SELECT x.a, count(*) AS n FROM (SELECT a FROM t UNION ALL SELECT a FROM u) x JOIN (SELECT a FROM v UNION ALL SELECT a FROM v) y ON x.a = y.a GROUP BY x.a
-- union filtered from outside
SELECT q.a FROM (SELECT a, id FROM t UNION ALL SELECT a, id FROM u) q WHERE q.a > 1 AND q.id < 9
-- exists over a union
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM (SELECT a FROM u UNION ALL SELECT a FROM v) q WHERE q.a = t.a)
-- values
SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS q(i, s)
-- values joined
SELECT t.id, q.s FROM t JOIN (VALUES (1, 'one'), (3, 'three')) AS q(i, s) ON t.a = q.i
-- in values
SELECT id FROM t WHERE a IN (VALUES (1), (3))
-- no table
SELECT 1 AS one, 'x' AS x
-- unnest
SELECT id, x FROM w, UNNEST(w.n) AS q(x)
-- left join of unnest
SELECT id, x FROM w LEFT JOIN LATERAL UNNEST(w.n) AS q(x) ON true
-- unnest of a literal
SELECT x FROM UNNEST([1, 2, 2]) AS q(x)
-- unnest in select
SELECT id, unnest(n) AS x FROM w
-- unnest in an expression
SELECT id, unnest(n) + 1 AS x FROM w
-- unnest filtered and counted
SELECT x, count(*) AS n FROM w, UNNEST(w.n) AS q(x) WHERE x > 1 GROUP BY x
-- generate_series
SELECT v.id, g.i FROM v, generate_series(1, v.a) AS g(i)
-- generate_series of nothing
SELECT i FROM generate_series(3, 1) AS g(i)
-- generate_series by steps
SELECT i FROM generate_series(5, 1, -2) AS g(i)
-- unnest in a correlated subquery
SELECT id, (SELECT max(x) FROM UNNEST(w.n) AS q(x)) AS m FROM w
-- a subquery over a view of with
WITH q AS (SELECT a, count(*) AS n FROM u GROUP BY a) SELECT t.id, (SELECT n FROM q WHERE q.a = t.a) AS n FROM t
-- with inside a correlated subquery
SELECT id, (WITH q AS (SELECT c FROM u WHERE u.a = t.a) SELECT max(c) FROM q) AS m FROM t
-- alias of order by before columns
SELECT id AS a, -b AS b FROM t ORDER BY b NULLS FIRST, a LIMIT 5
-- distinct on
SELECT DISTINCT ON (a) a, id FROM t ORDER BY a, id DESC
-- distinct on several
SELECT DISTINCT ON (a, s) id FROM t ORDER BY a, s, b NULLS LAST, id
-- rollup
SELECT a, s, count(*) AS n, grouping(a) AS ga, grouping(a, s) AS g FROM t GROUP BY ROLLUP (a, s)
-- cube
SELECT a, s, sum(b) AS n FROM t GROUP BY CUBE (a, s)
-- grouping sets
SELECT a, s, count(*) AS n FROM t GROUP BY GROUPING SETS ((a), (s), (a, s), ())
-- grouping sets of nothing
SELECT a, count(*) AS n FROM nothing GROUP BY GROUPING SETS ((a), ())
-- a key beside a rollup
SELECT a, s, count(*) AS n FROM t GROUP BY a, ROLLUP (s) HAVING count(*) > 2
-- rollup of an expression
SELECT a + 1 AS k, count(*) AS n FROM t GROUP BY ROLLUP (a + 1)
-- filter of a rollup
SELECT q.a, q.n FROM (SELECT a, count(*) AS n FROM t GROUP BY ROLLUP (a)) q WHERE q.a > 1
-- aggregates
SELECT a, count(*) AS c, count(b) AS cb, sum(b) AS sb, avg(b) AS ab, min(s) AS mi, max(s) AS ma, count(DISTINCT b) AS d, sum(DISTINCT b) AS sd FROM t GROUP BY a
-- aggregates of statistics
SELECT a, stddev_samp(b) AS x, var_pop(b) AS v, corr(b, id) AS c, covar_pop(b, id) AS p, regr_slope(b, id) AS r, regr_count(b, id) AS n FROM t GROUP BY a HAVING stddev_samp(b) > 0
-- aggregates of conditions and bits
SELECT a, bool_and(b > 1) AS x, bool_or(b > 4) AS y, bit_or(b) AS o, bit_and(b) AS z, bit_xor(b) AS e FROM t GROUP BY a
-- aggregates with filter
SELECT count(*) FILTER (WHERE b > 2) AS c, sum(b) FILTER (WHERE s = 'x') AS x, avg(m) FILTER (WHERE a IS NULL) AS m FROM t
-- string_agg
SELECT a, string_agg(s, '-' ORDER BY s DESC, id) AS x, string_agg(DISTINCT s, ',' ORDER BY s) AS y FROM t GROUP BY a
-- array_agg
SELECT a, array_agg(b ORDER BY b DESC NULLS LAST, id) AS x FROM t GROUP BY a
-- array_agg with filter
SELECT a, array_agg(b ORDER BY id) FILTER (WHERE b > 2) AS x FROM t GROUP BY a
-- array_agg in the order of the key
SELECT a, array_agg(s) AS x FROM (SELECT id, a, s FROM t) q GROUP BY a
-- first and last
SELECT a, first(s ORDER BY b NULLS FIRST, id) AS x, last(s ORDER BY b NULLS FIRST, id) AS y FROM t GROUP BY a
-- percentiles
SELECT a, percentile_cont(0.25) WITHIN GROUP (ORDER BY b) AS x, percentile_disc(0.3) WITHIN GROUP (ORDER BY b DESC) AS y, median(b) AS z FROM t GROUP BY a
-- percentile of texts
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY s) AS y FROM t
-- aggregates of nothing
SELECT count(*) AS c, sum(a) AS s, array_agg(a ORDER BY id) AS x, string_agg(c::varchar, ',' ORDER BY id) AS y, bool_and(a = 1) AS z FROM nothing
-- distinct tuples
SELECT s, count(DISTINCT (a, b)) AS n, count(DISTINCT (a, b)) FILTER (WHERE b > 1) AS m FROM t GROUP BY s
-- array any
SELECT id FROM w WHERE 1 = ANY (n)
-- joins in parentheses
SELECT t.id, u.id AS i, v.id AS j FROM t LEFT JOIN (u JOIN v ON u.c = v.c) ON t.a = u.a AND v.a > 1
-- parentheses first
SELECT t.id, u.id AS i, v.id AS j FROM (t LEFT JOIN u ON t.a = u.a) JOIN v ON v.id = t.b
-- star without a column
SELECT * EXCLUDE (m, d) FROM t
-- from a subquery without a name
SELECT a, n FROM (SELECT a, count(*) AS n FROM t GROUP BY a) WHERE n > 1
-- two subqueries without names
SELECT x, y FROM (SELECT a AS x FROM t), (SELECT c AS y FROM u) WHERE x = y
-- values without a name
SELECT id FROM t JOIN (VALUES (1), (2)) AS w(k) ON t.a = w.k
-- values with a quoted number
SELECT id, k FROM t JOIN (VALUES (1), ('2')) AS w(k) ON t.a = w.k
-- series with a name for its column
SELECT id, g.k FROM t JOIN generate_series(0, 3) AS g(k) ON t.a = g.k
-- numbers in quotes
SELECT id FROM t WHERE a = '1' OR b IN ('2', '3') OR m > '1.5'
-- lines through few points
SELECT s, d, corr(b, a) AS c, regr_slope(b, a) AS r, regr_intercept(b, a) AS i, regr_r2(b, a) AS q, regr_sxx(b, a) AS x, regr_avgy(b, a) AS y FROM t GROUP BY s, d
-- window: numbers of rows
SELECT id, row_number() OVER (PARTITION BY a ORDER BY b, id) AS n, rank() OVER (PARTITION BY a ORDER BY b) AS r FROM t
-- window: running sums, and sums of a partition
SELECT id, sum(b) OVER (PARTITION BY s ORDER BY id) AS x, sum(b) OVER (PARTITION BY s) AS y, count(*) OVER () AS n FROM t
-- window: sums of frames of rows
SELECT id, sum(b) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS x, max(m) OVER (PARTITION BY a ORDER BY id DESC ROWS 1 PRECEDING) AS y FROM t
-- window: neighbours
SELECT id, lag(b) OVER (PARTITION BY a ORDER BY id) AS x, lead(s, 2) OVER (ORDER BY d, id) AS y, first_value(s) OVER (PARTITION BY d ORDER BY id) AS z FROM t
-- window: windows over groups
SELECT a, count(*) AS n, rank() OVER (ORDER BY count(*) DESC, a) AS r, sum(sum(b)) OVER (ORDER BY a) AS x FROM t GROUP BY a
-- window: windows over a join, partitions of both sides
SELECT t.id, u.id AS other, row_number() OVER (PARTITION BY u.c ORDER BY t.id, u.id) AS n FROM t JOIN u ON t.a = u.a
-- window: windows over a left join
SELECT t.id, u.id AS other, count(u.id) OVER (PARTITION BY t.s ORDER BY t.id, u.id) AS n FROM t LEFT JOIN u ON t.a = u.a
-- window: a window in a subquery that is joined
SELECT u.id, q.id AS first FROM u JOIN (SELECT id, a, row_number() OVER (PARTITION BY a ORDER BY id) AS n FROM t) q ON u.a = q.a AND q.n = 1
-- window: the first rows by number
SELECT id, a FROM (SELECT id, a, row_number() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST, id) AS n FROM t) q WHERE n <= 2
-- window: the second and third row by number
SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY a ORDER BY id) AS n FROM t) q WHERE n BETWEEN 2 AND 3
-- window: the first rows by rank, of a union
SELECT id, r FROM (SELECT id, rank() OVER (PARTITION BY a ORDER BY s) AS r FROM (SELECT id, a, s FROM t UNION ALL SELECT id + 100, a, s FROM u) k) q WHERE 3 > r
-- window: qualify
SELECT id, s FROM t QUALIFY dense_rank() OVER (PARTITION BY a ORDER BY d) = 1
-- window: a window of a window
SELECT id, sum(n) OVER (PARTITION BY s) AS x FROM (SELECT id, s, row_number() OVER (PARTITION BY a ORDER BY id) AS n FROM t) q
-- window: a named window
SELECT id, sum(b) OVER w AS x, min(b) OVER (w ORDER BY id) AS y FROM t WINDOW w AS (PARTITION BY d)
-- window: a window in a correlated subquery
SELECT id, (SELECT max(n) FROM (SELECT row_number() OVER (PARTITION BY u.c ORDER BY u.id) AS n FROM u WHERE u.a = t.a) q) AS x FROM t
-- window: distinct results of windows
SELECT DISTINCT a, count(*) OVER (PARTITION BY a) AS n FROM t
-- window: the least by a window
SELECT id FROM t WHERE b IN (SELECT c FROM (SELECT c, rank() OVER (ORDER BY c DESC) AS r FROM u WHERE c IS NOT NULL) q WHERE r = 1)
-- window: a condition of the partition goes below the window
SELECT id, n FROM (SELECT id, a, count(*) OVER (PARTITION BY a ORDER BY id) AS n FROM t) q WHERE a = 2
-- window: first rows of an order by a window
SELECT id, sum(b) OVER (PARTITION BY a ORDER BY id) AS x FROM t ORDER BY row_number() OVER (ORDER BY id DESC) LIMIT 5
