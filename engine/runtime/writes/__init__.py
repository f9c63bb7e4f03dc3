"""INSERT, UPDATE, DELETE: rows are typed, checked, set against the keys that exist, and written in one commit."""
