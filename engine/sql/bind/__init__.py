"""Parsed query -> bound plan: names resolved, types checked, what cannot be maintained refused with its place."""
