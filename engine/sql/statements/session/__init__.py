"""Statements of a session: SET, SHOW, PREPARE, EXPLAIN and FLUSH as values."""
