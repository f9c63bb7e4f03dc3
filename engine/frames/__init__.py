"""Spark frames that nobody computes, as queries: what a function says of frames, in SQL."""
