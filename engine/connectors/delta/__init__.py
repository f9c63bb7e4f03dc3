"""Delta tables as sources: the log, versions, change data feed and values."""
