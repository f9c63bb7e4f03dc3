"""Backups: one version of a store, copied as a whole to another place, and put back from there."""
