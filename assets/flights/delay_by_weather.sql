-- Departure delay against wind (bands of 5 mph) and visibility (bands of 2 miles); reads the view departures_in_weather.
CREATE MATERIALIZED VIEW delay_by_weather AS
SELECT
  origin,
  CAST(floor(wind_speed / 5) * 5 AS INT) AS wind_from_mph,
  CAST(floor(visib / 2) * 2 AS INT) AS visibility_from_miles,
  count(*) AS departures,
  avg(dep_delay) AS mean_departure_delay,
  sum(CASE WHEN dep_delay > 60 THEN 1 ELSE 0 END) AS over_an_hour_late
FROM departures_in_weather
GROUP BY origin, CAST(floor(wind_speed / 5) * 5 AS INT), CAST(floor(visib / 2) * 2 AS INT);
