"""Landing folders: files that arrive in a folder or a bucket become rows of a table."""
