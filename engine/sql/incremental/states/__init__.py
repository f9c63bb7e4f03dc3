"""State tables of a view: what its rules keep beside its rows."""
