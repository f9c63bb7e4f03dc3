"""Incremental operators, one per file: each knows its batch form, the change of its output, and how its rows are found by key.

Each shows its rule by an example, which runs as a test. `change(query)` is the change of a materialized view over these tables

    bid (id, auction, price): (1, 7, 30), (2, 7, 50), (3, 8, 20)
    auction (id, category): (7, 'art'), (9, 'books')

in the epoch in which bid 4 of 10 for auction 9 comes in and bid 2 is deleted: rows that go, and rows that come.
"""
