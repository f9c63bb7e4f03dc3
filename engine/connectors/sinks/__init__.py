"""Sinks: what brings the changes of a view to files or into a table, each change once, at its own pace."""
