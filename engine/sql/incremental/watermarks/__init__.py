"""Watermarks in plans: which columns carry one, and what may close or expire by it."""
