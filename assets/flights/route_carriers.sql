-- Punctuality of each airline on each route.
CREATE MATERIALIZED VIEW route_carriers AS
SELECT
  origin,
  dest,
  carrier,
  count(arr_delay) AS arrivals,
  avg(arr_delay) AS mean_arrival_delay
FROM flights
GROUP BY origin, dest, carrier;
