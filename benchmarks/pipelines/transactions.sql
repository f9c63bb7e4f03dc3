-- What karolsudol/sparkling reads as a stream of CSV files.
CREATE TABLE transactions_landed (
    transaction_id STRING, user_id STRING, amount DECIMAL(18, 2), status STRING, event_time STRING
) APPEND ONLY;
INSERT INTO transactions_landed VALUES
    ('t1', 'u1', 10.25, 'COMPLETED', '2026-01-01T10:00:00'), ('t2', 'u2', -3, 'PENDING', '2026-01-01T11:00:00'),
    ('t3', 'u1', 12345678.9, 'FAILED', '2026-01-02T00:00:00'), ('t4', NULL, 0, 'COMPLETED', NULL);
