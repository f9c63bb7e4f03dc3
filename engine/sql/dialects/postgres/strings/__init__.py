"""Texts and patterns of PostgreSQL, written for Spark."""
