"""The one place that talks to Kafka: raw connections and their security, admin, internal topics."""
