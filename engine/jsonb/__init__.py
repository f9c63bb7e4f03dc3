"""PostgreSQL's json and jsonb values as texts: read, written in their normal form, asked and changed; no Spark, no SQL."""
