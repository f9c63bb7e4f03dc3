-- group: sales
-- Orders: every file that lands in landing/orders is read once; a row with a known id replaces the one before.
CREATE TABLE orders (
  id BIGINT PRIMARY KEY,
  shop STRING,
  price DECIMAL(10, 2)
) WITH (connector = 'landing', path = 'landing/orders', format = 'csv');

-- What each shop has sold, as of now.
CREATE MATERIALIZED VIEW sales_by_shop AS
SELECT shop, count(*) AS orders, sum(price) AS total
FROM orders
GROUP BY shop;
