"""What runs need from outside: a store and a Spark session."""

from resources.hummock import HummockResource
from resources.spark import SparkResource

__all__ = ["HummockResource", "SparkResource"]
