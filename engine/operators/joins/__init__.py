"""Joins of changes with the rows that they meet."""
