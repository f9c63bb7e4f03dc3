"""Delta tables as sinks: MERGE by key, exactly once, and their maintenance."""
