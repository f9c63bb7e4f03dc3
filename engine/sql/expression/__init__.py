"""Scalar expressions as trees: `nodes` are the data, every other module is one thing that is done with a tree."""
