"""FROM and JOIN of a query, bound: tables, subqueries, VALUES, table functions and joins."""
