"""SHOW and EXPLAIN: statements that list or describe."""
