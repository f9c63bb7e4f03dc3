"""Rewrites of parsed queries, before they are bound."""
