"""One epoch of one fragment on Spark: analyse plans, read changes, run operators, write files, commit, report."""
