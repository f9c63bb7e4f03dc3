"""Views that get another query while they stay answered: a successor is built beside the view, and takes its place."""
