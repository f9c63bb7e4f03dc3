"""The models: every statement of a .sql file in here is an asset."""
