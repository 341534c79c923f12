"""Records that Confluent's serializers write by one registry and its deserializers read by another."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from mirror_ray.lab.devcluster import DevCluster
from tests.support.reading import Record

#: Two versions of a record, the second with one field more.
ORDER_V1: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
ORDER_V2: dict[str, Any] = ORDER_V1 | {
    "fields": [*ORDER_V1["fields"], {"name": "note", "type": ["null", "string"], "default": None}]
}
#: What the schema of a subject `Money` is, and a record that refers to it.
MONEY: dict[str, Any] = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
PRICED: dict[str, Any] = ORDER_V1 | {"fields": [*ORDER_V1["fields"], {"name": "price", "type": "Money"}]}
JSON_ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}},
}


def register(registry_url: str, subject: str, schema: dict[str, Any]) -> int:
    """Register an Avro schema; returns its id."""
    client = SchemaRegistryClient({"url": registry_url})
    return int(client.register_schema(subject, Schema(json.dumps(schema), "AVRO")))


class SchemaWriter:
    """Writes a topic's values by a registry; each call serializes anew, and registers what is new."""

    def __init__(self, cluster: DevCluster, registry_url: str) -> None:
        self._producer = Producer(cluster.confluent_config())
        self.registry = SchemaRegistryClient({"url": registry_url})

    def avro(
        self, topic: str, schema: dict[str, Any], *values: dict[str, Any], references: Any = (), in_header: bool = False
    ) -> None:
        """Write values by an Avro schema.

        ``references``: name, subject and version of each. ``in_header``: the schema's GUID is there, not its id before
        the value.
        """
        named = [SchemaReference(*reference) for reference in references]
        more = {"schema.id.serializer": header_schema_id_serializer} if in_header else {}
        serializer = AvroSerializer(self.registry, Schema(json.dumps(schema), "AVRO", named), conf=more)
        self._write(topic, serializer, *values)

    def json(self, topic: str, schema: dict[str, Any], *values: dict[str, Any]) -> None:
        """Write values by a JSON schema."""
        self._write(topic, JSONSerializer(json.dumps(schema), self.registry), *values)

    def protobuf(self, topic: str, *messages: Any) -> None:
        """Write messages of one type."""
        serializer = ProtobufSerializer(type(messages[0]), self.registry, {"use.deprecated.format": False})
        self._write(topic, serializer, *messages)

    def raw(self, topic: str, *values: bytes) -> None:
        """Write bytes as they are."""
        for value in values:
            self._producer.produce(topic, value)
        self._flush()

    def _write(self, topic: str, serializer: Any, *values: Any) -> None:
        for value in values:
            headers: list[tuple[str, str | bytes | None]] = []
            context = SerializationContext(topic, MessageField.VALUE, headers)
            self._producer.produce(topic, serializer(value, context), headers=headers)
        self._flush()

    def _flush(self) -> None:
        assert self._producer.flush(30.0) == 0


class SchemaReader:
    """Reads values by a registry alone."""

    def __init__(self, registry_url: str) -> None:
        self.registry = SchemaRegistryClient({"url": registry_url})

    def avro(self, topic: str, values: list[bytes]) -> list[Any]:
        """Values that were written by Avro schemas."""
        return self._read(topic, AvroDeserializer(self.registry), values)

    def avro_by_headers(self, topic: str, records: list[Record]) -> list[Any]:
        """Values of records whose headers have the schemas' GUIDs."""
        read = AvroDeserializer(self.registry)
        return [
            read(record.value, SerializationContext(topic, MessageField.VALUE, list(record.headers)))
            for record in records
        ]

    def json(self, topic: str, values: list[bytes]) -> list[Any]:
        """Values that were written by JSON schemas."""
        return self._read(topic, JSONDeserializer(None, schema_registry_client=self.registry), values)

    def protobuf(self, topic: str, kind: type, values: list[bytes]) -> list[Any]:
        """Values that were written as messages of a type."""
        found = self._read(topic, ProtobufDeserializer(kind, {"use.deprecated.format": False}), values)
        for value in values:
            # The deserializer goes by the type, and asks no registry.
            assert self.registry.get_schema(int.from_bytes(value[1:5], "big")).schema_type == "PROTOBUF"
        return found

    @staticmethod
    def _read(topic: str, deserializer: Any, values: list[bytes]) -> list[Any]:
        return [deserializer(value, SerializationContext(topic, MessageField.VALUE)) for value in values]
