"""Operators that compute small epochs on Arrow."""
