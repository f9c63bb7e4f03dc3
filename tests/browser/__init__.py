"""Dagster's page in a real browser."""
