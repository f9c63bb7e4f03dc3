"""The source of PostgreSQL: tables follow tables of a database by logical decoding."""
