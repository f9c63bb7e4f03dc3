"""Every public verb of the storage engine in any order against a dictionary of versions."""
