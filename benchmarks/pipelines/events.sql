-- What lisancao/sdp-airflow-eks, pipelines, makes by random numbers and the clock.
CREATE TABLE events_landed (id BIGINT, event_type STRING, amount DOUBLE, event_ts TIMESTAMP);
