"""Readers of file formats: CSV, JSON and Parquet, how they are compressed and encoded, and their limits."""
