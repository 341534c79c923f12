"""The one room that imports pyspark and raydp: Spark inside the Ray cluster of a running system."""
