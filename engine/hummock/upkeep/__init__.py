"""Upkeep of a store: garbage collection, expiry, pins and scheduled maintenance."""
