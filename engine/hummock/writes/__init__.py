"""Writes: batches of an epoch, row ids, and locks between the writers of one machine."""
