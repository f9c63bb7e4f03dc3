"""Queries answered: by the store alone, by Spark over it, from the catalog, at an epoch of now or of the past."""
