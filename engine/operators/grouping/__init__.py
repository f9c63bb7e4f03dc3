"""Operators over groups of rows: aggregates, first rows, windows, and groups that are computed anew."""
