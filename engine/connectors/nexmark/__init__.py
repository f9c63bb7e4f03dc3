"""The generator of the Nexmark benchmark as a source."""
