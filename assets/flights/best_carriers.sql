-- The most punctual airline of each route, among those with ten arrivals or more; reads the view route_carriers.
CREATE MATERIALIZED VIEW best_carriers AS
SELECT r.origin, r.dest, r.carrier, r.arrivals, r.mean_arrival_delay
FROM route_carriers r
JOIN (
  SELECT origin, dest, min(mean_arrival_delay) AS best
  FROM route_carriers
  WHERE arrivals >= 10
  GROUP BY origin, dest
) b ON r.origin = b.origin AND r.dest = b.dest AND r.mean_arrival_delay = b.best
WHERE r.arrivals >= 10;
