"""Status: what a store reports of its views, sources, sinks and checks."""
