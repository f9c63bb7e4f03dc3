"""Changes of tables as rows."""
