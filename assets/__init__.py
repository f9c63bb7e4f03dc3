"""The project's own models: `.sql` files, one or more statements each."""
