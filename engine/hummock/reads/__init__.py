"""Reads: point lookups, scans, merges of sorted runs, and change logs."""
