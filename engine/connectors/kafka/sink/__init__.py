"""The sink of Kafka topics."""
