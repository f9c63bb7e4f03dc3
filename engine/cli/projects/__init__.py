"""Commands about projects of other tools, whose models become views."""
