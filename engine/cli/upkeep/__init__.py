"""Commands that look after a store: backups, branches, fingerprints, and rows that are computed anew."""
