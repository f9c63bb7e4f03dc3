-- What the functions of dmatrix/spark-declarative-pipelines, src/py/sdp/oil_rigs, make by random numbers.
CREATE TABLE permian_landed (
    event_id STRING, rig_name STRING, location STRING, region STRING, sensor_type STRING, sensor_value FLOAT,
    `timestamp` TIMESTAMP, latitude FLOAT, longitude FLOAT
);
CREATE TABLE eagle_ford_landed (
    event_id STRING, rig_name STRING, location STRING, region STRING, sensor_type STRING, sensor_value FLOAT,
    `timestamp` TIMESTAMP, latitude FLOAT, longitude FLOAT
);
