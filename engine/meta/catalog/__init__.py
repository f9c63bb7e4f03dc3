"""The catalog of a store: relations and plans as entries of its manifests."""
