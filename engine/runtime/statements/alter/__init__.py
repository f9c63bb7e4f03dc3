"""ALTER and RENAME of relations and their columns."""
