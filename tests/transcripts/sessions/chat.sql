-- Messages of a chat: rooms, threads, mentions, in RisingWave's words.
-- dialect: risingwave

CREATE SCHEMA IF NOT EXISTS chat;

CREATE TABLE chat.member (nick VARCHAR PRIMARY KEY, joined DATE, quiet BOOLEAN DEFAULT false);

CREATE TABLE chat.message (id BIGINT PRIMARY KEY, room VARCHAR NOT NULL, nick VARCHAR, body VARCHAR, sent TIMESTAMP, reply_to BIGINT);

COMMENT ON COLUMN chat.message.reply_to IS 'the message that is answered';

INSERT INTO chat.member (nick, joined) VALUES ('ann', '2024-01-01'), ('bo', '2024-02-10'), ('çelik', '2023-12-31');

INSERT INTO chat.member VALUES ('mute', NULL, TRUE);

INSERT INTO chat.message VALUES
 (1, 'tea', 'ann', 'Hello @bo!', '2024-06-01 08:00:00', NULL), (2, 'tea', 'bo', 'hi', '2024-06-01 08:00:10', 1), (3, 'tea', 'ann', 'How''s "life"? 100%', '2024-06-01 08:01:00', 2),
 (4, 'work', 'çelik', 'Ünïcode: ß 😀 \n', '2024-06-01 09:00:00.123456', NULL), (5, 'work', NULL, '', '2024-06-01 09:30:00', 4), (6, 'work', 'ghost', NULL, NULL, 4), (7, 'tea', 'bo', '@ann @çelik lunch?', '2024-06-02 12:00:00', NULL);

CREATE MATERIALIZED VIEW chat.rooms AS SELECT room, count(*) AS messages, count(DISTINCT nick) AS people, max(sent) AS last, sum(length(body)) AS chars FROM chat.message GROUP BY room;

CREATE MATERIALIZED VIEW chat.replies AS SELECT m.id, m.nick, p.nick AS answers, m.sent - p.sent AS after FROM chat.message m JOIN chat.message p ON m.reply_to = p.id;

CREATE MATERIALIZED VIEW chat.silent AS SELECT nick FROM chat.member WHERE nick NOT IN (SELECT nick FROM chat.message WHERE nick IS NOT NULL);

CREATE MATERIALIZED VIEW chat.loudest AS SELECT room, nick, n FROM (SELECT room, nick, count(*) AS n, rank() OVER (PARTITION BY room ORDER BY count(*) DESC, nick) AS r FROM chat.message WHERE nick IS NOT NULL GROUP BY room, nick) q WHERE r = 1;

FLUSH;

SELECT * FROM chat.rooms ORDER BY room;
--: character varying | bigint | bigint | timestamp without time zone | bigint
--> ["tea", "4", "2", "2024-06-02 12:00:00", "48"]
--> ["work", "3", "2", "2024-06-01 09:30:00", "15"]

SELECT * FROM chat.replies ORDER BY id;
--: bigint | character varying | character varying | interval
--> ["2", "bo", "ann", "00:00:10"]
--> ["3", "ann", "bo", "00:00:50"]
--> ["5", null, "çelik", "00:29:59.876544"]
--> ["6", "ghost", "çelik", null]

SELECT * FROM chat.silent ORDER BY nick;
--: character varying
--> ["mute"]

SELECT * FROM chat.loudest ORDER BY room;
--: character varying | character varying | bigint
--> ["tea", "ann", "2"]
--> ["work", "ghost", "1"]

SELECT id, upper(room) AS u, length(body) AS n, body LIKE '%\%' AS pct, body ILIKE 'h%' AS h, position('@' IN body) AS at FROM chat.message ORDER BY id;
--: bigint | text | integer | boolean | boolean | integer
--> ["1", "TEA", "10", "f", "t", "7"]
--> ["2", "TEA", "2", "f", "t", "0"]
--> ["3", "TEA", "18", "t", "t", "0"]
--> ["4", "WORK", "15", "f", "f", "0"]
--> ["5", "WORK", "0", "f", "f", "0"]
--> ["6", "WORK", null, null, null, null]
--> ["7", "TEA", "18", "f", "f", "1"]

SELECT id, (regexp_match(body, '@(\w+)'))[1] AS first_mention, regexp_count(body, '@') AS mentions FROM chat.message ORDER BY id;
--: bigint | text | integer
--> ["1", "bo", "1"]
--> ["2", null, "0"]
--> ["3", null, "0"]
--> ["4", null, "0"]
--> ["5", null, "0"]
--> ["6", null, null]
--> ["7", "ann", "2"]

SELECT m.id, w.word FROM chat.message m, unnest(string_to_array(m.body, ' ')) AS w(word) WHERE m.room = 'tea' ORDER BY m.id, w.word;
--: bigint | text
--> ["1", "@bo!"]
--> ["1", "Hello"]
--> ["2", "hi"]
--> ["3", "\"life\"?"]
--> ["3", "100%"]
--> ["3", "How's"]
--> ["7", "@ann"]
--> ["7", "@çelik"]
--> ["7", "lunch?"]

SELECT md5(body) AS h, reverse(body) AS r, replace(body, 'l', 'L') AS l, lpad(body, 5, '*') AS p FROM chat.message WHERE id <= 2 ORDER BY id;
--: text | text | text | text
--> ["07c5e8638ca9d0471913ed207698cc30", "!ob@ olleH", "HeLLo @bo!", "Hello"]
--> ["49f68a5c8493ec2c0bf489821c21fc3b", "ih", "hi", "***hi"]

INSERT INTO chat.message (id, room, nick, body, sent) SELECT id + 100, 'archive', nick, body, sent FROM chat.message WHERE room = 'tea' RETURNING id, room;
--: bigint | character varying
--> ["101", "archive"]
--> ["102", "archive"]
--> ["103", "archive"]
--> ["107", "archive"]

DELETE FROM chat.message WHERE nick = 'ghost' OR body = '' RETURNING id, nick;
--: bigint | character varying
--> ["5", null]
--> ["6", "ghost"]

UPDATE chat.message SET nick = 'mute' WHERE id = 102;

FLUSH;

SELECT room, messages, people FROM chat.rooms ORDER BY room;
--: character varying | bigint | bigint
--> ["archive", "4", "3"]
--> ["tea", "4", "2"]
--> ["work", "1", "1"]

SELECT id, answers, after FROM chat.replies ORDER BY id;
--: bigint | character varying | interval
--> ["2", "ann", "00:00:10"]
--> ["3", "bo", "00:00:50"]

SELECT * FROM chat.silent ORDER BY nick;
--: character varying

SELECT * FROM chat.loudest ORDER BY room;
--: character varying | character varying | bigint
--> ["archive", "ann", "2"]
--> ["tea", "ann", "2"]
--> ["work", "çelik", "1"]

SET search_path TO chat;

SELECT count(*) FROM message;
--: bigint
--> ["9"]

SELECT nick, joined, joined + INTERVAL '1 month' AS next, extract(quarter FROM joined) AS q, to_char(joined, 'Day, DD Month') AS shown FROM member ORDER BY joined NULLS FIRST;
--: character varying | date | timestamp without time zone | numeric | text
--> ["mute", null, null, null, null]
--> ["çelik", "2023-12-31", "2024-01-31 00:00:00", "4", "Sunday   , 31 December "]
--> ["ann", "2024-01-01", "2024-02-01 00:00:00", "1", "Monday   , 01 January  "]
--> ["bo", "2024-02-10", "2024-03-10 00:00:00", "1", "Saturday , 10 February "]

SELECT sent::date AS day, room, count(*) AS n FROM message GROUP BY GROUPING SETS ((sent::date, room), (room), ()) ORDER BY room NULLS LAST, day NULLS LAST;
--: date | character varying | bigint
--> ["2024-06-01", "archive", "3"]
--> ["2024-06-02", "archive", "1"]
--> [null, "archive", "4"]
--> ["2024-06-01", "tea", "3"]
--> ["2024-06-02", "tea", "1"]
--> [null, "tea", "4"]
--> ["2024-06-01", "work", "1"]
--> [null, "work", "1"]
--> [null, null, "9"]

SELECT id, sum(length(body)) OVER (PARTITION BY room ORDER BY id) AS running, first_value(nick) OVER (PARTITION BY room ORDER BY id) AS starter, count(*) OVER (PARTITION BY room) AS of FROM message WHERE room <> 'archive' ORDER BY id;
--: bigint | bigint | character varying | bigint
--> ["1", "10", "ann", "4"]
--> ["2", "12", "ann", "4"]
--> ["3", "30", "ann", "4"]
--> ["4", "15", "çelik", "1"]
--> ["7", "48", "ann", "4"]

SELECT a.nick, b.nick AS other FROM member a CROSS JOIN member b WHERE a.nick < b.nick AND NOT a.quiet AND NOT b.quiet ORDER BY 1, 2;
--: character varying | character varying
--> ["ann", "bo"]
--> ["ann", "çelik"]
--> ["bo", "çelik"]

SELECT nick FROM member UNION SELECT nick FROM message WHERE nick IS NOT NULL ORDER BY nick DESC;
--: character varying
--> ["çelik"]
--> ["mute"]
--> ["bo"]
--> ["ann"]

SELECT nick FROM member INTERSECT SELECT nick FROM message ORDER BY 1;
--: character varying
--> ["ann"]
--> ["bo"]
--> ["mute"]
--> ["çelik"]

SELECT coalesce(nick, '-'), greatest(id, 3), least(id, 3), nullif(room, 'tea'), id BETWEEN 2 AND 4 FROM message WHERE id < 10 ORDER BY id;
--: character varying | bigint | bigint | text | boolean
--> ["ann", "3", "1", null, "f"]
--> ["bo", "3", "2", null, "t"]
--> ["ann", "3", "3", null, "t"]
--> ["çelik", "4", "3", "work", "t"]
--> ["bo", "7", "3", null, "f"]

SELECT id FROM message WHERE sent > '2024-06-01 08:30:00' AND room IN ('work', 'tea') ORDER BY sent DESC NULLS LAST;
--: bigint
--> ["7"]
--> ["4"]

SELECT * FROM (VALUES ('tea', 1), ('work', 2)) AS r(room, rank) JOIN rooms USING (room) ORDER BY rank;
--: text | integer | bigint | bigint | timestamp without time zone | bigint
--> ["tea", "1", "4", "2", "2024-06-02 12:00:00", "48"]
--> ["work", "2", "1", "1", "2024-06-01 09:00:00.123456", "15"]

SELECT room FROM message GROUP BY room HAVING max(length(body)) > 15 ORDER BY room;
--: character varying
--> ["archive"]
--> ["tea"]

SELECT bodyy FROM message;
--! bodyy

SELECT m.nope FROM message m;
--! nope

INSERT INTO member VALUES ('dup', '2024-13-01');
--! 2024-13-01

INSERT INTO message (id, body) VALUES (500, 'no room');
--! room

-- differs: a negative length is as good as none; PostgreSQL refuses it
SELECT substring(body FROM 1 FOR -1) AS none FROM message WHERE id = 1;
--: text
--> [""]

SELECT body::int FROM message WHERE id = 2;
--! hi

-- differs: a span of months and days has no type of a column; its parts can be taken
SELECT max(sent) - min(sent) AS span, age(max(sent), min(sent)) AS a FROM message WHERE id < 100;
--! a span of months and days

ALTER TABLE message ALTER COLUMN body SET DEFAULT '(empty)';

INSERT INTO message (id, room, nick) VALUES (8, 'tea', 'mute') RETURNING id, body, sent;
--: bigint | character varying | timestamp without time zone
--> ["8", "(empty)", null]

FLUSH;

SELECT room, messages, chars FROM rooms ORDER BY room;
--: character varying | bigint | bigint
--> ["archive", "4", "48"]
--> ["tea", "5", "55"]
--> ["work", "1", "15"]

SELECT * FROM silent;
--: character varying

DROP TABLE member, message;
--! silent

DROP TABLE member, message CASCADE;

SELECT * FROM chat.rooms;
--! rooms
