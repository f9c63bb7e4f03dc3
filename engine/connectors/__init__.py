"""Sources: what brings rows from outside into tables."""
