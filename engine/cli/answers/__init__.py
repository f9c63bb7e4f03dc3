"""What commands answer about rows: why one is there or not, what has changed, and who changed it."""
