-- How many flights of each airport and month were cancelled.
CREATE MATERIALIZED VIEW cancellations_by_airport AS
SELECT
  origin,
  year,
  month,
  sum(kept) AS kept,
  sum(cancelled) AS cancelled
FROM (
  SELECT origin, year, month, 1 AS kept, 0 AS cancelled FROM flights
  UNION ALL
  SELECT origin, year, month, 0 AS kept, 1 AS cancelled FROM cancellations
) AS movements
GROUP BY origin, year, month;
