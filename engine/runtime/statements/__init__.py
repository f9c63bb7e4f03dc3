"""Statements carried out: CREATE, ALTER, DROP, SHOW, SET; errors that name their place."""
