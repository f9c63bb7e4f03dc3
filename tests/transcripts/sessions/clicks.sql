-- Clicks on a site: sources, views over views, sinks into tables, in RisingWave's words.
-- dialect: risingwave

CREATE TABLE page (path VARCHAR PRIMARY KEY, title VARCHAR, section VARCHAR);

CREATE TABLE click (id BIGINT PRIMARY KEY, user_id INT, path VARCHAR, at TIMESTAMPTZ, props JSONB, tags VARCHAR[]);

INSERT INTO page VALUES ('/', 'Home', 'root'), ('/a', 'About us', 'info'), ('/b', 'Blog: "news"', 'info'), ('/x', NULL, NULL);

INSERT INTO click VALUES
 (1, 10, '/', '2024-05-01 12:00:00+00:00', '{"ref": "mail", "ms": 120}', ARRAY['new', 'mobile']),
 (2, 10, '/a', '2024-05-01 12:00:20+00:00', '{"ms": 80}', '{mobile}'), (3, 11, '/', '2024-05-01 23:30:00-02:00', NULL, NULL),
 (4, 11, '/b', '2024-05-02 01:31:00+00', '{"ref": null, "ms": 95.5, "path": [1, {"k": "v"}]}', ARRAY[]::VARCHAR[]), (5, NULL, '/nowhere', '2024-05-02 06:00:00+00', '{"ms": "fast"}', ARRAY['bot', NULL, 'x,y']);

CREATE MATERIALIZED VIEW per_page AS SELECT p.path, p.section, COUNT(c.id) AS clicks, COUNT(DISTINCT c.user_id) AS users FROM page p LEFT JOIN click c ON c.path = p.path GROUP BY p.path, p.section;

CREATE MATERIALIZED VIEW per_section AS SELECT section, SUM(clicks) AS clicks FROM per_page GROUP BY section;

CREATE MATERIALIZED VIEW visits AS SELECT user_id, at, path, lag(at) OVER (PARTITION BY user_id ORDER BY at) AS before FROM click WHERE user_id IS NOT NULL;

CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, MAX(at) AS last, COALESCE(SUM((props ->> 'ms')::FLOAT8) FILTER (WHERE jsonb_typeof(props -> 'ms') = 'number'), 0) AS ms FROM click;

FLUSH;

SELECT * FROM per_page ORDER BY path;
--: character varying | character varying | bigint | bigint
--> ["/", "root", "2", "2"]
--> ["/a", "info", "1", "1"]
--> ["/b", "info", "1", "1"]
--> ["/x", null, "0", "0"]

SELECT * FROM per_section ORDER BY section NULLS FIRST;
--: character varying | numeric
--> [null, "0"]
--> ["info", "2"]
--> ["root", "2"]

SELECT user_id, path, at - before AS gap FROM visits ORDER BY user_id, at;
--: integer | character varying | interval
--> ["10", "/", null]
--> ["10", "/a", "00:00:20"]
--> ["11", "/", null]
--> ["11", "/b", "00:01:00"]

SELECT * FROM total;
--: bigint | timestamp with time zone | double precision
--> ["5", "2024-05-02 06:00:00+00", "295.5"]

SELECT id, props, props ->> 'ref' AS ref, props -> 'ms' AS ms, props @> '{"ms": 80}' AS fast, props #> '{path,1,k}' AS k FROM click ORDER BY id;
--: bigint | jsonb | text | jsonb | boolean | jsonb
--> ["1", "{\"ms\": 120, \"ref\": \"mail\"}", "mail", "120", "f", null]
--> ["2", "{\"ms\": 80}", null, "80", "t", null]
--> ["3", null, null, null, null, null]
--> ["4", "{\"ms\": 95.5, \"ref\": null, \"path\": [1, {\"k\": \"v\"}]}", null, "95.5", "f", "\"v\""]
--> ["5", "{\"ms\": \"fast\"}", null, "\"fast\"", "f", null]

SELECT id, tags, array_length(tags, 1) AS n, tags[1] AS first, 'mobile' = ANY(tags) AS mobile, array_to_string(tags, '|', '?') AS t, array_append(tags, 'z') AS more FROM click ORDER BY id;
--: bigint | character varying[] | integer | character varying | boolean | text | character varying[]
--> ["1", "{new,mobile}", "2", "new", "t", "new|mobile", "{new,mobile,z}"]
--> ["2", "{mobile}", "1", "mobile", "t", "mobile", "{mobile,z}"]
--> ["3", null, null, null, null, null, "{z}"]
--> ["4", "{}", null, null, "f", "", "{z}"]
--> ["5", "{bot,NULL,\"x,y\"}", "3", "bot", null, "bot|?|x,y", "{bot,NULL,\"x,y\",z}"]

SELECT t.tag, count(*) AS n FROM click c, unnest(c.tags) AS t(tag) GROUP BY t.tag ORDER BY n DESC, t.tag;
--: character varying | bigint
--> ["mobile", "2"]
--> ["bot", "1"]
--> ["new", "1"]
--> ["x,y", "1"]
--> [null, "1"]

SELECT key, value FROM click, jsonb_each_text(props) WHERE id = 2;
--: text | text
--> ["ms", "80"]

SELECT to_char(at, 'YYYY-MM-DD') AS day, at AT TIME ZONE 'Asia/Tokyo' AS tokyo, at::text AS t FROM click ORDER BY id;
-- differs: RisingWave says the zone's minutes in the text of an instant, PostgreSQL does not

INSERT INTO click VALUES (6, 12, '/a', '2024-05-02 07:00:00+00', '{}', NULL), (7, 10, '/a', '2024-05-02 07:00:01+00', NULL, NULL);

DELETE FROM click WHERE id = 1;

UPDATE click SET path = '/b' WHERE user_id = 11 AND path = '/' RETURNING id, path, user_id;
--: bigint | character varying | integer
--> ["3", "/b", "11"]

FLUSH;

SELECT * FROM per_page ORDER BY clicks DESC, path;
--: character varying | character varying | bigint | bigint
--> ["/a", "info", "3", "2"]
--> ["/b", "info", "2", "1"]
--> ["/", "root", "0", "0"]
--> ["/x", null, "0", "0"]

SELECT section, clicks FROM per_section ORDER BY clicks DESC, section;
--: character varying | numeric
--> ["info", "5"]
--> ["root", "0"]
--> [null, "0"]

SELECT * FROM total;
--: bigint | timestamp with time zone | double precision
--> ["6", "2024-05-02 07:00:01+00", "175.5"]

-- judge: INSERT INTO page VALUES ('/a', 'About', 'company') ON CONFLICT (path) DO UPDATE SET title = EXCLUDED.title, section = EXCLUDED.section;
INSERT INTO page VALUES ('/a', 'About', 'company');

FLUSH;

SELECT section, clicks FROM per_section ORDER BY section NULLS LAST;
--: character varying | numeric
--> ["company", "3"]
--> ["info", "2"]
--> ["root", "0"]
--> [null, "0"]

-- judge: CREATE TABLE page_log (path VARCHAR, section VARCHAR, clicks BIGINT)
CREATE TABLE page_log (path VARCHAR, section VARCHAR, clicks BIGINT, PRIMARY KEY (path, section));

-- judge: INSERT INTO page_log SELECT path, section, clicks FROM per_page
CREATE SINK log_it INTO page_log AS SELECT path, section, clicks FROM per_page;

FLUSH;

SELECT * FROM page_log ORDER BY path;
--: character varying | character varying | bigint
--> ["/", "root", "0"]
--> ["/a", "company", "3"]
--> ["/b", "info", "2"]
--> ["/x", null, "0"]

DELETE FROM click WHERE path = '/b';

-- judge: DELETE FROM page_log; INSERT INTO page_log SELECT path, section, clicks FROM per_page
FLUSH;

SELECT * FROM page_log ORDER BY clicks DESC, path;
--: character varying | character varying | bigint
--> ["/a", "company", "3"]
--> ["/", "root", "0"]
--> ["/b", "info", "0"]
--> ["/x", null, "0"]

-- only: tideline, RisingWave's
SHOW SINKS;

-- judge:
DROP SINK log_it;

CREATE MATERIALIZED VIEW busiest AS SELECT path, clicks FROM per_page ORDER BY clicks DESC, path LIMIT 2;

SELECT * FROM busiest ORDER BY clicks DESC, path;
--: character varying | bigint
--> ["/a", "3"]
--> ["/", "0"]

SELECT path FROM per_page WHERE clicks = (SELECT max(clicks) FROM per_page) ORDER BY path;
--: character varying
--> ["/a"]

SELECT user_id, string_agg(path, ' > ' ORDER BY at) AS way, count(*) AS n FROM click GROUP BY user_id ORDER BY user_id NULLS LAST;
--: integer | text | bigint
--> ["10", "/a > /a", "2"]
--> ["12", "/a", "1"]
--> [null, "/nowhere", "1"]

SELECT section, array_agg(path ORDER BY path) AS paths, bool_or(title LIKE '%out%') AS about FROM page GROUP BY section ORDER BY section NULLS LAST;
--: character varying | character varying[] | boolean
--> ["company", "{/a}", "t"]
--> ["info", "{/b}", "f"]
--> ["root", "{/}", "f"]
--> [null, "{/x}", null]

WITH c AS (SELECT user_id, count(*) AS n FROM click GROUP BY user_id) SELECT n, count(*) AS users FROM c GROUP BY n ORDER BY n;
--: bigint | bigint
--> ["1", "2"]
--> ["2", "1"]

SELECT p.path, c.n FROM page p LEFT JOIN LATERAL (SELECT count(*) AS n FROM click c WHERE c.path = p.path) c ON true ORDER BY c.n DESC, p.path;
--: character varying | bigint
--> ["/a", "3"]
--> ["/", "0"]
--> ["/b", "0"]
--> ["/x", "0"]

SELECT path FROM page EXCEPT SELECT path FROM click ORDER BY path;
--: character varying
--> ["/"]
--> ["/b"]
--> ["/x"]

SELECT jsonb_build_object('id', id, 'user', user_id) AS doc, to_jsonb(tags) AS t FROM click ORDER BY id;
--: jsonb | jsonb
--> ["{\"id\": 2, \"user\": 10}", "[\"mobile\"]"]
--> ["{\"id\": 5, \"user\": null}", "[\"bot\", null, \"x,y\"]"]
--> ["{\"id\": 6, \"user\": 12}", null]
--> ["{\"id\": 7, \"user\": 10}", null]

SELECT id FROM click WHERE props ? 'ms' AND (props ->> 'ms') ~ '^[0-9.]+$' ORDER BY id;
--: bigint
--> ["2"]

SELECT clicks FROM per_pages;
--! per_pages

SELECT count(clics) FROM per_page;
--! clics

INSERT INTO click (id, props) VALUES (99, '{bad json');
--! JSON

INSERT INTO click (id, at) VALUES (99, 'yesterdayish');
--! yesterdayish

CREATE MATERIALIZED VIEW per_page AS SELECT 1 AS one;
--! per_page

DROP MATERIALIZED VIEW per_page;
--! busiest

DROP MATERIALIZED VIEW per_page CASCADE;

SELECT * FROM per_section;
--! per_section

TRUNCATE TABLE click;

FLUSH;

SELECT n, last, ms FROM total;
--: bigint | timestamp with time zone | double precision
--> ["0", null, "0"]
