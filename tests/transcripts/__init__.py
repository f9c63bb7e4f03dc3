"""Sessions as people type them, and what another database answered to the same statements."""
