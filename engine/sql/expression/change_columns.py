"""The columns that a table's changes have as rows beside the table's own, and what they say."""

PART, ROW, OPERATION = "_changelog_part", "_changelog_row_id", "changelog_op"
INSERTED, DELETED, COMES, GOES = 1, 2, 3, 4
"""What `changelog_op` says: a row came, went, or is the new or the old one of an update."""
