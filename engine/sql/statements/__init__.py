"""Text -> one typed statement: CREATE, ALTER, DML, SET, SHOW and what else is not a query."""
