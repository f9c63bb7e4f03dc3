"""The Dagster side of a project: its models as assets, the sensor that asks for runs, the runs, the schedules."""
