-- Each departed flight with the wind and the visibility at its airport in the hour of its departure.
CREATE MATERIALIZED VIEW departures_in_weather AS
SELECT
  f.year,
  f.month,
  f.day,
  f.carrier,
  f.flight,
  f.origin,
  f.dep_delay,
  w.wind_speed,
  w.visib,
  w.precip
FROM flights f
JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
WHERE f.dep_time IS NOT NULL;
