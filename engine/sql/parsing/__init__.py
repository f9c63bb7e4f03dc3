"""Texts -> sqlglot's trees, names, places, and the errors that show them."""
