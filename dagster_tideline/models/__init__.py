"""Models: files of SQL and Python declarations, read, checked and made into asset specs."""
