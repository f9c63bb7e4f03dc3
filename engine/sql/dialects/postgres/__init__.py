"""PostgreSQL's and RisingWave's expressions in Spark's words: functions, literals, patterns, JSON, bytes, times, rows."""
