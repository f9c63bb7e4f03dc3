"""Snapshot backfill: a new view reads its inputs' snapshot piece by piece, each a commit, then their change log."""
