"""What a slow partition keeps in memory."""

from __future__ import annotations

from mirror_ray.replication.fetched_batches import detached


def test_a_small_part_of_an_answer_does_not_keep_the_whole_of_it() -> None:
    """It is copied and still writable; a large part stays where it was received."""
    answer = memoryview(bytearray(b"x" * 80_000))
    small, large = answer[100:9_000], answer[9_000:]
    kept = detached(small, len(answer))
    assert kept.obj is not answer.obj
    assert kept == small
    assert not kept.readonly
    assert detached(large, len(answer)).obj is answer.obj
