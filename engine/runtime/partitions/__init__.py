"""Views that are cut into partitions: how an epoch is cut, which values there are, which of them fail."""
