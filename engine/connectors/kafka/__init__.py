"""The source of Kafka topics."""
