"""What the control plane knows: relations, plans, frontiers; all of it lives in the store's manifests."""
