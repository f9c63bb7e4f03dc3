"""Types: those of columns, those of expressions and queries that are certain, and texts that are no value of theirs."""
