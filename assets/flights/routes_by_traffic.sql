-- Routes with their traffic; airports that nobody has described keep their code.
CREATE MATERIALIZED VIEW routes_by_traffic AS
SELECT
  f.origin,
  f.dest,
  coalesce(a.name, f.dest) AS destination,
  count(*) AS flights,
  count(f.arr_time) AS arrived,
  sum(f.distance) AS miles,
  avg(f.air_time) AS mean_minutes_in_air
FROM flights f
LEFT JOIN airports a ON f.dest = a.faa
GROUP BY f.origin, f.dest, coalesce(a.name, f.dest);
