-- Punctuality of each airline on each route.
CREATE MATERIALIZED VIEW route_carriers AS
SELECT
  origin,
  dest,
  carrier,
  count(arr_delay) AS arrivals,
  round(avg(arr_delay), 2) AS mean_arrival_delay
FROM flights
GROUP BY origin, dest, carrier;
