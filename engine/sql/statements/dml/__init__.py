"""Statements that write rows, as values."""
