"""As-of joins."""
