"""Runs of epochs: what is due, the run itself, and the events that Dagster shows of it."""
