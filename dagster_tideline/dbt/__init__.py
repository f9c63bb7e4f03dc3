"""Models of a dbt project, read from its `manifest.json`, as models of Tideline."""
