"""Views that follow the clock."""
