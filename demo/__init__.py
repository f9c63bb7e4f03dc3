"""The demo: a year of flights from New York, replayed day by day through the project's own models."""
