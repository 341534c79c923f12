"""Kafka's compression codecs over a batch's payload, as Kafka's own clients and brokers frame them.

Decompression is bounded: the size is limited before memory is allocated, and the result is kept once, so that a damaged
or hostile batch costs little more memory than ``limit_bytes``.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.records.batch import Codec

#: More than any batch that a producer builds: Kafka's own bound is the request, 100 MB by default.
DECOMPRESSED_LIMIT_BYTES: Final = 256 << 20

_GZIP_WBITS: Final = zlib.MAX_WBITS | 16
#: Bytes given to zlib at a time, growing from a member's beginning: it copies the bytes that it does not use.
_GZIP_FIRST_INPUT_BYTES: Final = 256
_GZIP_MOST_INPUT_BYTES: Final = 64 << 10
_GZIP_OUTPUT_BYTES: Final = 256 << 10

_ZSTD_LEVEL: Final = 3
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_BLOCK_BYTES: Final = 128 << 10
#: Up to level 19; 128 MiB at level 22. RFC 8878 wants any decoder to have so much.
_ZSTD_USUAL_WINDOW_BYTES: Final = 8 << 20
_ZSTD_RESERVED_BLOCK: Final = 3
#: Bytes of the dictionary id and of the content size, by their flags in a zstd frame's descriptor.
_ZSTD_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_ZSTD_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)

#: The stream header of snappy-java, which Kafka's Java code writes: magic, version 1, compatible since version 1.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES: Final = 32 << 10

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
#: Version 1, independent blocks (Kafka reads no others), no checksums; blocks of at most 64 KB; the header's checksum.
_LZ4_HEADER: Final = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 64 << 10
_LZ4_UNCOMPRESSED_BIT: Final = 0x8000_0000


def compress(codec: Codec, data: bytes | bytearray | memoryview) -> bytes:
    """Compress a batch's payload with the codec's usual level, framed as Kafka's clients do."""
    return _COMPRESS[codec](memoryview(data))


def decompress(codec: Codec, data: bytes | memoryview, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> bytes:
    """Unpack a batch's payload.

    Raises:
        CorruptBatchError: It is not of that codec's format, or unpacks to more than ``limit_bytes``.
    """
    try:
        return _DECOMPRESS[codec](memoryview(data), limit_bytes)
    except (zlib.error, cramjam.DecompressionError, OSError, ValueError, IndexError) as error:
        raise CorruptBatchError(
            f"{codec} payload of {len(data)} bytes does not unpack within {limit_bytes} bytes: {error}"
        ) from error


def _over(limit_bytes: int) -> ValueError:
    return ValueError(f"it is larger than the limit of {limit_bytes} bytes")


def _ends(data: memoryview, stop: int) -> None:
    if stop > len(data):
        raise ValueError(f"it ends {stop - len(data)} bytes too early")


def _put(output: io.BytesIO, unpacked: bytes | memoryview, limit_bytes: int) -> None:
    output.write(unpacked)
    if output.tell() > limit_bytes:
        raise _over(limit_bytes)


def _sized(size_bytes: int, unpack_into: Callable[[memoryview], int]) -> bytes:
    """The bytes that a function writes into a buffer of this size, which takes memory as it is filled; not copied."""
    output = io.BytesIO(bytes(size_bytes))
    with output.getbuffer() as buffer:
        size_bytes = unpack_into(buffer)
    output.truncate(size_bytes)
    return output.getvalue()


def _none(data: memoryview) -> bytes:
    return bytes(data)


def _from_none(data: memoryview, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise _over(limit_bytes)
    return bytes(data)


def _gzip(data: memoryview) -> bytes:
    return zlib.compress(data, wbits=_GZIP_WBITS)


def _from_gzip(data: memoryview, limit_bytes: int) -> bytes:
    # BytesIO returns its own buffer; joining parts would hold all of it twice.
    output, position = io.BytesIO(), 0
    while not position or position < len(data):
        position = _unpack_gzip_member(data, position, output, limit_bytes)
    return output.getvalue()


def _unpack_gzip_member(data: memoryview, position: int, output: io.BytesIO, limit_bytes: int) -> int:
    """Unpack the member at ``position``, and return where it ends. The bytes behind it add no cost."""
    member, input_bytes = zlib.decompressobj(wbits=_GZIP_WBITS), _GZIP_FIRST_INPUT_BYTES
    while not member.eof:
        given = data[position : position + input_bytes]
        unpacked = member.decompress(given, _GZIP_OUTPUT_BYTES)
        if not given and not unpacked:
            raise ValueError("it ends too early")
        position += len(given) - len(member.unconsumed_tail) - len(member.unused_data)
        input_bytes = min(2 * input_bytes, _GZIP_MOST_INPUT_BYTES)
        _put(output, unpacked, limit_bytes)
    return position


def _snappy(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _from_snappy(data: memoryview, limit_bytes: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _from_snappy_block(data, limit_bytes)
    output, position = io.BytesIO(), len(_XERIAL_HEADER)
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[position:start], "big")
        _ends(data, position)
        output.write(_from_snappy_block(data[start:position], limit_bytes - output.tell()))
    return output.getvalue()


def _from_snappy_block(data: memoryview, limit_bytes: int) -> bytes:
    size_bytes = cramjam.snappy.decompress_raw_len(data)
    if size_bytes > limit_bytes:
        raise _over(limit_bytes)
    return _sized(size_bytes, lambda buffer: int(cramjam.snappy.decompress_raw_into(data, buffer)))


def _lz4(data: memoryview) -> bytes:
    parts = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        raw = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        if len(block) < len(raw):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(raw) | _LZ4_UNCOMPRESSED_BIT).to_bytes(4, "little"), bytes(raw))
    parts.append(bytes(4))
    return b"".join(parts)


def _from_lz4(data: memoryview, limit_bytes: int) -> bytes:
    """Read a frame block by block.

    Its checksums are not compared: the batch's CRC covers them, and in magic 0 messages the header's is computed
    wrongly (KAFKA-3160).
    """
    if bytes(data[:4]) != _LZ4_MAGIC:
        raise ValueError("it does not begin as an LZ4 frame")
    flags, block_size_code = data[4], data[5] >> 4 & 7
    if flags & 0xE0 != 0x60 or block_size_code < 4:
        raise ValueError(f"its LZ4 frame has flags {flags:#04x} and block size {block_size_code}: Kafka writes no such")
    block_checksum, content_size = bool(flags & 0x10), bool(flags & 0x08)
    position = 7 + 8 * content_size
    output, block = io.BytesIO(), memoryview(bytearray(min(1 << (8 + 2 * block_size_code), limit_bytes)))
    while True:
        start = position + 4
        _ends(data, start)
        header = int.from_bytes(data[position:start], "little")
        if not header:
            return output.getvalue()
        stop = start + (header & ~_LZ4_UNCOMPRESSED_BIT)
        _ends(data, stop)
        stored = bool(header & _LZ4_UNCOMPRESSED_BIT)
        unpacked = data[start:stop] if stored else block[: cramjam.lz4.decompress_block_into(data[start:stop], block)]
        _put(output, unpacked, limit_bytes)
        position = stop + 4 * block_checksum


def _zstd(data: memoryview) -> bytes:
    return bytes(cramjam.zstd.compress(data, _ZSTD_LEVEL))


def _from_zstd(data: memoryview, limit_bytes: int) -> bytes:
    size_bytes, window_bytes = _zstd_bounds(data)
    # The decoder keeps a window of the output beside it.
    beside_bytes = max(0, min(size_bytes, window_bytes) - _ZSTD_USUAL_WINDOW_BYTES)
    if beside_bytes > limit_bytes:
        raise _over(limit_bytes)
    size_bytes = min(size_bytes, limit_bytes - beside_bytes)
    return _sized(size_bytes, lambda buffer: int(cramjam.zstd.decompress_into(data, buffer)))


def _zstd_bounds(data: memoryview) -> tuple[int, int]:
    """The largest size that zstd frames can unpack to, by their blocks' headers, and the largest window (RFC 8878)."""
    position = bound = window = 0
    while position < len(data):
        if bytes(data[position : position + 4]) != _ZSTD_MAGIC:
            raise ValueError("it does not begin as a zstd frame")
        start, descriptor = position + 5, data[position + 4]
        single_segment = bool(descriptor & 0x20)
        content_size_bytes = _ZSTD_CONTENT_SIZE_BYTES[descriptor >> 6] or int(single_segment)
        position += 5 + (not single_segment) + _ZSTD_DICTIONARY_BYTES[descriptor & 3] + content_size_bytes
        # A frame of a single segment has its size instead of a window.
        size = int.from_bytes(data[position - content_size_bytes : position], "little")
        window = max(window, size if single_segment else _zstd_window_bytes(data[start]))
        last = False
        while not last:
            _ends(data, position + 3)
            header = int.from_bytes(data[position : position + 3], "little")
            last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            if kind == _ZSTD_RESERVED_BLOCK:
                raise ValueError("its zstd frame has a block of a reserved kind")
            bound += size if kind < 2 else _ZSTD_BLOCK_BYTES
            position += 3 + (1 if kind == 1 else size)
        position += 4 * bool(descriptor & 0x04)
        _ends(data, position)
    return bound, window


def _zstd_window_bytes(descriptor: int) -> int:
    power_of_two = 1 << (10 + (descriptor >> 3))
    return power_of_two + power_of_two // 8 * (descriptor & 7)


_COMPRESS: Final[dict[Codec, Callable[[memoryview], bytes]]] = {
    "none": _none,
    "gzip": _gzip,
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": _zstd,
}
_DECOMPRESS: Final[dict[Codec, Callable[[memoryview, int], bytes]]] = {
    "none": _from_none,
    "gzip": _from_gzip,
    "snappy": _from_snappy,
    "lz4": _from_lz4,
    "zstd": _from_zstd,
}
