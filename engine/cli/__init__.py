"""The console script `tideline`."""

from engine.cli.commands import main

__all__ = ["main"]
