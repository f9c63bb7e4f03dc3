"""What PostgreSQL answers to many expressions at once, recorded, and asked again where a server is at hand."""
