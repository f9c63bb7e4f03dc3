"""Rewrites of bound plans."""
