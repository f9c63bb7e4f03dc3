"""Dates, times and intervals of PostgreSQL, written for Spark."""
