"""Manifests: the numbered objects that commits create, their chain, and the preconditions of a commit."""
