"""What the crash harness raises."""


class Broken(AssertionError):
    """An invariant does not hold."""
