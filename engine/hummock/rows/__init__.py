"""Rows as the store orders them: keys, hashes and the order of values."""
