"""Scheduled upkeep: compaction, garbage collection, Delta maintenance, freshness and liveness."""
