"""Incremental operators, one per file: each knows its batch form, the change of its output, and how its rows are found by key."""
