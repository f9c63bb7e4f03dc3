"""The sampled oracle: some rows of views are computed from what they read, as a batch, and held against those that are stored."""
