"""Tideline's engine: incremental SQL views over a Hummock-style store; it never imports Dagster."""
