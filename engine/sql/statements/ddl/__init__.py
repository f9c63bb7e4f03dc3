"""Statements that define: CREATE, ALTER and DROP as values."""
