"""Questions about single rows of views: why one is there."""
