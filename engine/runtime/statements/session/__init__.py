"""Statements that change a session, not the store."""
