"""The contract of connectors: what a source gives, what a sink acknowledges, and how both commit."""
