"""What a store reports of itself: metrics, prices of requests, traffic through the driver."""
