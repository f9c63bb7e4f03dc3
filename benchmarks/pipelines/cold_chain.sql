-- What IvannKurchenko/blog-spark-4.1-declarative-pipelines, src/pipelines/batch, reads as Parquet files.
CREATE TABLE sensors (sensor_id STRING PRIMARY KEY, location STRING, sensor_type STRING);
CREATE TABLE readings (
    reading_id STRING PRIMARY KEY, sensor_id STRING, `timestamp` STRING, value DOUBLE, unit STRING
);
INSERT INTO sensors VALUES
    ('sensor-001', 'warehouse-A', 'temperature'), ('sensor-002', 'warehouse-B', 'temperature'),
    ('sensor-003', 'warehouse-A', 'humidity'), ('sensor-004', 'warehouse-C', 'temperature');
INSERT INTO readings VALUES
    ('r1', 'sensor-001', '2024-01-15T00:00:00Z', 4.5, '°C'), ('r2', 'sensor-002', '2024-01-15T00:10:00Z', -3, '°C'),
    ('r3', 'sensor-003', '2024-01-15T00:20:00Z', 55.5, '%RH'), ('r4', 'sensor-004', '2024-01-16T00:00:00Z', 9, '°C'),
    ('r5', 'key-0', '2024-01-16T00:10:00Z', 1.25, '°C'), ('r6', 'key-5', '2024-01-17T00:00:00Z', 7, '°C');
