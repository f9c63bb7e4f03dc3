-- An aircraft's day: how often it left New York, for how long it was in the air, and what it is.
CREATE MATERIALIZED VIEW aircraft_day AS
SELECT
  f.tailnum,
  make_date(f.year, f.month, f.day) AS flight_date,
  p.manufacturer,
  p.model,
  count(*) AS departures,
  sum(f.air_time) AS minutes_in_air,
  sum(f.distance) AS miles,
  min(f.dep_time) AS first_departure,
  max(f.dep_delay) AS worst_delay
FROM flights f
LEFT JOIN planes p ON f.tailnum = p.tailnum
WHERE f.tailnum IS NOT NULL AND f.dep_time IS NOT NULL
GROUP BY f.tailnum, make_date(f.year, f.month, f.day), p.manufacturer, p.model;
