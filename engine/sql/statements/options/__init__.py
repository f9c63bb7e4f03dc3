"""Options of statements: WITH (…), and their values."""
