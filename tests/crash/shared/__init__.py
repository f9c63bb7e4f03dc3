"""A random program on Spark whose driver crashes: the epochs of a run are computed in one task, or each by itself."""
