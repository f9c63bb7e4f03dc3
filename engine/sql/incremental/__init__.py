"""Bound plan -> fragments: rules by which a change of the inputs becomes the change of a view."""
