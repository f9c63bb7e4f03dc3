"""What commands list: relations, checks, backfills, partitions, the steps of a flush."""
