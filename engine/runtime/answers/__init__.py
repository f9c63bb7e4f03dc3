"""Questions about rows: why one is there, in which epochs it changed, and what changed between two moments."""
