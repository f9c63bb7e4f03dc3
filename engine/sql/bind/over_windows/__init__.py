"""Calls over windows, bound: what may be called, and over which frame of rows."""
