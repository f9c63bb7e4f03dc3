"""The driver: one long run that commits epochs as rows come, and reports them to Dagster at intervals."""
