-- Tables of public dbt projects whose rows are in no file of theirs: `benchmarks.public_dbt` makes random rows for them.
-- A column with REFERENCES takes its values from the other table.
CREATE TABLE raw_orders (
  id VARCHAR PRIMARY KEY, customer VARCHAR REFERENCES raw_customers (id), ordered_at TIMESTAMP,
  store_id VARCHAR REFERENCES raw_stores (id), subtotal BIGINT, tax_paid BIGINT, order_total BIGINT
);
CREATE TABLE raw_items (
  id VARCHAR PRIMARY KEY, order_id VARCHAR REFERENCES raw_orders (id), sku VARCHAR REFERENCES raw_products (sku)
);
