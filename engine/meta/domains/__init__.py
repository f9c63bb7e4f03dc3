"""Domains: which tables commit together, what was asked of them, and how they recover."""
