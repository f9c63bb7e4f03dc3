"""CREATE of relations: tables, views, indexes, schemas and functions."""
