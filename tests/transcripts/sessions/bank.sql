-- A small bank: accounts, transfers, statements of accounts.
-- dialect: postgres

create table account (iban text primary key, owner text not null, currency char(3) default 'EUR', opened timestamptz, limit_cents bigint default 0);

create table transfer (
  id bigint primary key, src text, dst text,
  cents bigint not null,
  booked timestamptz not null,
  memo text,
  meta json
);

insert into account (iban, owner, opened) values
 ('NL01', 'Ann', '2024-01-01 00:00:00+00'), ('NL02', 'Bo', '2024-01-02 12:00:00+01'), ('DE03', 'Cy', '2024-01-03 23:59:59.999-05:30');

insert into account values ('US04', 'Di', 'USD', timestamptz '2024-02-01 10:00:00 UTC', 50000), ('XX05', '', null, null, null);

select iban, currency, opened, opened at time zone 'America/New_York' as ny from account order by iban;
--: text | character(3) | timestamp with time zone | timestamp without time zone
--> ["DE03", "EUR", "2024-01-04 05:29:59.999+00", "2024-01-04 00:29:59.999"]
--> ["NL01", "EUR", "2024-01-01 00:00:00+00", "2023-12-31 19:00:00"]
--> ["NL02", "EUR", "2024-01-02 11:00:00+00", "2024-01-02 06:00:00"]
--> ["US04", "USD", "2024-02-01 10:00:00+00", "2024-02-01 05:00:00"]
--> ["XX05", null, null, null]

insert into transfer values
 (1, 'NL01', 'NL02', 12500, '2024-03-01 08:00+00', 'rent', '{"tag":"home"}'), (2, 'NL02', 'DE03', 999, '2024-03-01 09:30+00', null, null),
 (3, 'DE03', 'NL01', 100000, '2024-03-15 23:30+00', 'sold bike', '{"tag": "sale", "n": [1, 2]}'), (4, null, 'US04', 777777, '2024-03-31 23:59:59.5+00', 'cash', '{}'),
 (5, 'NL01', 'NL01', 1, '2024-04-01 00:00+02', 'self', 'null');

create materialized view moves as
 select src as iban, -cents as cents, booked, id from transfer where src is not null
 union all select dst, cents, booked, id from transfer where dst is not null;

create materialized view balance as
 select a.iban, a.owner, coalesce(sum(m.cents), 0) as cents, count(m.id) as n, max(m.booked) as last from account a left join moves m on m.iban = a.iban group by a.iban, a.owner;

create materialized view monthly as
 select iban, date_trunc('month', booked) as month, sum(cents) filter (where cents > 0) as "in", sum(cents) filter (where cents < 0) as "out" from moves group by iban, date_trunc('month', booked);

flush;

select * from balance order by iban;
--: text | text | numeric | bigint | timestamp with time zone
--> ["DE03", "Cy", "-99001", "2", "2024-03-15 23:30:00+00"]
--> ["NL01", "Ann", "87500", "4", "2024-03-31 22:00:00+00"]
--> ["NL02", "Bo", "11501", "2", "2024-03-01 09:30:00+00"]
--> ["US04", "Di", "777777", "1", "2024-03-31 23:59:59.5+00"]
--> ["XX05", "", "0", "0", null]

select iban, to_char(month, 'Mon YYYY') as m, "in", "out" from monthly order by iban, month;
--: text | text | numeric | numeric
--> ["DE03", "Mar 2024", "999", "-100000"]
--> ["NL01", "Mar 2024", "100001", "-12501"]
--> ["NL02", "Mar 2024", "12500", "-999"]
--> ["US04", "Mar 2024", "777777", null]

select owner, (cents / 100.0)::numeric(12,2) as euros, to_char(cents / 100.0, 'FM999,990.00') as shown, sign(cents) from balance order by cents desc, owner;
--: text | numeric(12,2) | text | numeric
--> ["Di", "7777.77", "7,777.77", "1"]
--> ["Ann", "875.00", "875.00", "1"]
--> ["Bo", "115.01", "115.01", "1"]
--> ["", "0.00", "0.00", "0"]
--> ["Cy", "-990.01", "-990.01", "-1"]

select id, src, dst, memo, nullif(src, dst) is null as suspicious, meta->>'tag' as tag, json_typeof(meta) as kind from transfer order by id;
--: bigint | text | text | text | boolean | text | text
--> ["1", "NL01", "NL02", "rent", "f", "home", "object"]
--> ["2", "NL02", "DE03", null, "f", null, null]
--> ["3", "DE03", "NL01", "sold bike", "f", "sale", "object"]
--> ["4", null, "US04", "cash", "t", null, "object"]
--> ["5", "NL01", "NL01", "self", "t", null, "null"]

select t.id, s.owner as from_owner, d.owner as to_owner from transfer t left join account s on s.iban = t.src inner join account d on d.iban = t.dst order by t.id desc;
--: bigint | text | text
--> ["5", "Ann", "Ann"]
--> ["4", null, "Di"]
--> ["3", "Cy", "Ann"]
--> ["2", "Bo", "Cy"]
--> ["1", "Ann", "Bo"]

select id, cents, sum(cents) over (order by booked, id) as running, row_number() over (partition by src order by booked desc) as rn, lead(memo, 1, 'none') over (order by id) as next_memo from transfer order by id;
--: bigint | bigint | numeric | bigint | text
--> ["1", "12500", "12500", "2", null]
--> ["2", "999", "13499", "1", "sold bike"]
--> ["3", "100000", "113499", "1", "cash"]
--> ["4", "777777", "891277", "1", "self"]
--> ["5", "1", "113500", "1", "none"]

begin;

insert into transfer (id, src, dst, cents, booked) values (6, 'NL01', 'US04', 250, '2024-04-02 12:00:00+00');

commit;

insert into transfer (id, src, dst, cents, booked) values (6, 'NL02', 'US04', 250, '2024-04-02 12:00:00+00');
--! keys that exist

insert into transfer (id, src, dst, cents, booked) values (7, 'NL02', 'US04', 99999999999999999999, '2024-04-02');
--! cents

insert into transfer (id, src, dst, cents, booked) values (7, 'NL02', 'US04', 'a lot', '2024-04-02');
--! a lot

update transfer set memo = memo || ' (checked)', cents = cents + 1 where memo is not null returning id, memo, cents;
--: bigint | text | bigint
--> ["1", "rent (checked)", "12501"]
--> ["3", "sold bike (checked)", "100001"]
--> ["4", "cash (checked)", "777778"]
--> ["5", "self (checked)", "2"]

delete from transfer where id = 5 returning *;
--: bigint | text | text | bigint | timestamp with time zone | text | json
--> ["5", "NL01", "NL01", "2", "2024-03-31 22:00:00+00", "self (checked)", "null"]

flush;

select iban, cents, n from balance order by iban;
--: text | numeric | bigint
--> ["DE03", "-99002", "2"]
--> ["NL01", "87250", "3"]
--> ["NL02", "11502", "2"]
--> ["US04", "778028", "2"]
--> ["XX05", "0", "0"]

select iban, month, "in", "out" from monthly where iban in ('NL01', 'US04') order by 1, 2;
--: text | timestamp with time zone | numeric | numeric
--> ["NL01", "2024-03-01 00:00:00+00", "100001", "-12501"]
--> ["NL01", "2024-04-01 00:00:00+00", null, "-250"]
--> ["US04", "2024-03-01 00:00:00+00", "777778", null]
--> ["US04", "2024-04-01 00:00:00+00", "250", null]

with t as (select * from transfer where cents > 500), big as (select id from t where cents > 50000)
select count(*) as all_rows, (select count(*) from big) as big, sum(cents)::text as s, avg(cents) as mean from t;
--: bigint | bigint | text | numeric
--> ["4", "2", "891279", "222819.750000000000"]

select coalesce(memo, '-') as memo, booked - lag(booked) over (order by booked) as gap from transfer order by booked;
--: text | interval
--> ["rent (checked)", null]
--> ["-", "01:30:00"]
--> ["sold bike (checked)", "14 days 14:00:00"]
--> ["cash (checked)", "16 days 00:29:59.5"]
--> ["-", "1 day 12:00:00.5"]

select booked::date as d, booked::time as t, extract(epoch from booked) as e, date_part('hour', booked) as h, extract(week from booked) as w, extract(isodow from booked) as dow from transfer order by id;
--: date | time without time zone | numeric | double precision | numeric | numeric
--> ["2024-03-01", "08:00:00", "1709280000.000000", "8", "9", "5"]
--> ["2024-03-01", "09:30:00", "1709285400.000000", "9", "9", "5"]
--> ["2024-03-15", "23:30:00", "1710545400.000000", "23", "11", "5"]
--> ["2024-03-31", "23:59:59.5", "1711929599.500000", "23", "13", "7"]
--> ["2024-04-02", "12:00:00", "1712059200.000000", "12", "14", "2"]

select cast(cents as numeric) / 7 as seventh, cents::float8 / 7 as f, cents / 7 as whole, mod(cents, 7) as m, power(2, 10) as p, sqrt(cents::float8) as s from transfer order by id;
--: numeric | double precision | bigint | bigint | double precision | double precision
--> ["1785.8571428571428571", "1785.857142857143", "1785", "6", "1024", "111.80787092150534"]
--> ["142.7142857142857143", "142.71428571428572", "142", "5", "1024", "31.606961258558215"]
--> ["14285.857142857143", "14285.857142857143", "14285", "6", "1024", "316.2293471517152"]
--> ["111111.142857142857", "111111.14285714286", "111111", "1", "1024", "881.9172296763455"]
--> ["35.7142857142857143", "35.714285714285715", "35", "5", "1024", "15.811388300841896"]

select 10 / 4 as a, 10 / 4.0 as b, -7 / 2 as c, -7 % 3 as d, 7.5::int as e, 6.5::int as f, 0.1 + 0.2 as g, 2 ^ 3 as h, 5 # 3 as k, 1 << 4 as l;
--: integer | numeric | integer | integer | integer | integer | numeric | double precision | integer | integer
--> ["2", "2.5000000000000000", "-3", "-1", "8", "7", "0.3", "8", "6", "16"]

select sqrt(16.0) as i, abs(-5) as j;
--: numeric | integer
--> ["4.000000000000000", "5"]

select 1 / 0;
--! zero

select 5 % 0;
--! zero

select sqrt(-1);
--! negative

select ln(0);
--! zero

select 1::float8::text as a, 1e15::float8::text as b, 1e-5::float8::text as c, 'NaN'::float8::text as d, 123456.789::float8::text as e, '-Infinity'::float8::text as f, 0.1::float4::text as g;
--: text | text | text | text | text | text | text
--> ["1", "1e+15", "1e-05", "NaN", "123456.789", "-Infinity", "0.1"]

select true::text as a, 't'::boolean as b, 1::boolean as c, false::int as d, 12.5::text as e, ' 42 '::int as f, '2024-01-05'::date::text as g, null::text as h;
--: text | boolean | boolean | integer | text | integer | text | text
--> ["true", "t", "t", "0", "12.5", "42", "2024-01-05", null]

select quote_nullable(null) as a, quote_nullable('it''s') as b, quote_literal('x') as c, format('%s owes %s', 'Bo', 12) as d, concat('a', null, 1, true) as e, concat_ws('-', 'a', null, 'b') as f;
--: text | text | text | text | text | text
--> ["NULL", "'it''s'", "'x'", "Bo owes 12", "a1t", "a-b"]

select iban, exists (select from transfer t where t.src = a.iban) as sends, array(select t.id from transfer t where t.dst = a.iban order by t.id) as gets from account a order by iban;
--: text | boolean | bigint[]
--> ["DE03", "t", "{2}"]
--> ["NL01", "t", "{3}"]
--> ["NL02", "t", "{1}"]
--> ["US04", "f", "{4,6}"]
--> ["XX05", "f", "{}"]

select currency, count(*) from account group by currency having count(*) >= 1 order by currency nulls first;
--: character(3) | bigint
--> [null, "1"]
--> ["EUR", "3"]
--> ["USD", "1"]

select iban from account except select dst from transfer order by 1;
--: text
--> ["XX05"]

select src from transfer where src is not null intersect select dst from transfer order by src;
--: text
--> ["DE03"]
--> ["NL01"]
--> ["NL02"]

select * from transfer t where t.cents = (select max(cents) from transfer) and t.booked > '2024-03-01';
--: bigint | text | text | bigint | timestamp with time zone | text | json
--> ["4", null, "US04", "777778", "2024-03-31 23:59:59.5+00", "cash (checked)", "{}"]

select owner, x.n, x.total from account a, lateral (select count(*) as n, sum(cents) as total from transfer t where t.src = a.iban) x where x.n > 0 order by owner;
--: text | bigint | numeric
--> ["Ann", "2", "12751"]
--> ["Bo", "1", "999"]
--> ["Cy", "1", "100001"]

alter table transfer alter column memo set default 'no memo';

insert into transfer (id, dst, cents, booked) values (8, 'DE03', 4200, '2024-05-05 05:05:05+00') returning id, src, memo;
--: bigint | text | text
--> ["8", null, "no memo"]

alter table account rename to accounts;

update accounts set limit_cents = default where iban = 'US04' returning iban, limit_cents;
--: text | bigint
--> ["US04", "0"]

flush;

select owner, cents, last from balance order by cents, owner limit 3;
--: text | numeric | timestamp with time zone
--> ["Cy", "-94802", "2024-05-05 05:05:05+00"]
--> ["", "0", null]
--> ["Bo", "11502", "2024-03-01 09:30:00+00"]

drop table transfer cascade;

select * from balance;
--! balance
