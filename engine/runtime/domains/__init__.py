"""A run: its plan, the epochs of each domain one after the other, what fails and what waits."""
