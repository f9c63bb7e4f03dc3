"""Spark: its session and its server, its analysis of plans, its errors and its log, its workers."""
