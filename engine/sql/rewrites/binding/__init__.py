"""Rewrites while a query is bound."""
