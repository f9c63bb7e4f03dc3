"""What Dagster loads of this project."""
