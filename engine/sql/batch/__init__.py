"""Queries that are computed as a whole: asked once, recomputed by each epoch, or answered by the store alone."""
