"""Statements that ask connectors: what a table follows, and where a view's changes go."""
