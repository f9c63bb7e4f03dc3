-- What dmatrix/spark-declarative-pipelines, src/py/sdp/daily_orders, reads as CSV files.
CREATE TABLE orders_landed (
    order_id STRING PRIMARY KEY, order_item STRING, price FLOAT, items_ordered INT, status STRING, state STRING,
    date_ordered DATE
);
INSERT INTO orders_landed VALUES
    ('a', 'Toy Car', 12.5, 1, 'approved', 'Ohio', DATE '2026-01-03'),
    ('b', 'Puzzle, large', 99.99, 4, 'fulfilled', 'Utah', DATE '2026-01-05'),
    ('c', 'Laptop', 740, 2, 'pending', 'New York', DATE '2026-02-01'),
    ('d', 'Drone', 310.25, 10, 'cancelled', 'Iowa', DATE '2026-02-28');
