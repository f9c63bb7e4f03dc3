"""Epochs: barriers, frontiers, target epochs, and the plan of a run."""
