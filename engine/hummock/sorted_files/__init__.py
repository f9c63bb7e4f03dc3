"""Sorted files: immutable Parquet files of rows in the order of hash and key, and their cache."""
