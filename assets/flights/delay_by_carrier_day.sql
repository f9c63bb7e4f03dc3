-- How late each airline was on each day.
CREATE MATERIALIZED VIEW delay_by_carrier_day AS
SELECT
  f.carrier,
  a.name AS airline,
  make_date(f.year, f.month, f.day) AS flight_date,
  count(*) AS scheduled,
  count(f.dep_time) AS departed,
  avg(f.dep_delay) AS mean_departure_delay,
  avg(f.arr_delay) AS mean_arrival_delay,
  sum(CASE WHEN f.arr_delay > 15 THEN 1 ELSE 0 END) AS late_arrivals
FROM flights f
JOIN airlines a ON f.carrier = a.carrier
GROUP BY f.carrier, a.name, make_date(f.year, f.month, f.day);
