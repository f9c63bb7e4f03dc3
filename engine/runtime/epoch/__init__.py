"""One epoch of one fragment: its inputs' changes become its table's change, by prepared or new frames, and are checked."""
