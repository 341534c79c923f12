"""Calls into a librdkafka client that are made again while brokers can't answer."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror_ray.kafka.librdkafka import kafka_error, until_answered


def failing(*codes: int) -> list[float]:
    """Call something that fails so and then succeeds; the timeouts that it was given."""
    timeouts: list[float] = []
    left = list(codes)

    def call(timeout_s: float) -> list[float]:
        timeouts.append(timeout_s)
        if left:
            raise KafkaException(KafkaError(left.pop(0)))
        return timeouts

    return until_answered(call, 30)


def test_a_call_is_made_again_while_brokers_cannot_answer() -> None:
    """Until it succeeds, with some seconds for each try."""
    timeouts = failing(KafkaError._TIMED_OUT, KafkaError.LEADER_NOT_AVAILABLE)
    assert len(timeouts) == 3
    assert all(0 < timeout <= 5 for timeout in timeouts)


def test_a_failure_that_will_not_pass_is_raised_at_once() -> None:
    """A right that is missing stays missing."""
    with pytest.raises(KafkaException) as failure:
        failing(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    error = kafka_error(failure.value)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_patience_ends() -> None:
    """The last failure is raised."""

    def call(timeout_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    with pytest.raises(KafkaException):
        until_answered(call, 0.1)
