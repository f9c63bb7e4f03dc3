"""What a statement must not do, as another relation relies on it."""
