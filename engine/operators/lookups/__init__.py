"""Lookups of stored rows by the keys of a change."""
