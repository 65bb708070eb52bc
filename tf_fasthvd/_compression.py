"""Sending tensors in fewer bytes: cast before the collective and back after it."""

from __future__ import annotations

import tensorflow as tf


class Compressor:
    """Compresses floating-point tensors by casting them to `wire_dtype`; others pass unchanged.

    Subclasses may override both methods for another scheme.
    """

    wire_dtype: tf.DType | None = None

    @classmethod
    def compress(cls, tensor: tf.Tensor) -> tuple[tf.Tensor, tf.DType]:
        """The tensor to send, and what `decompress` needs to undo it."""
        dtype = tensor.dtype
        wire = cls.wire_dtype
        if wire is None or not dtype.is_floating or dtype.size <= wire.size:
            return tensor, dtype
        return tf.cast(tensor, wire), dtype

    @classmethod
    def decompress(cls, tensor: tf.Tensor, context: tf.DType) -> tf.Tensor:
        """The tensor in its first type again."""
        return tensor if tensor.dtype == context else tf.cast(tensor, context)


class NoneCompressor(Compressor):
    """Sends tensors as they are."""


class FP16Compressor(Compressor):
    """Sends float32 and float64 as float16: most precision, but above 65504 becomes infinite."""

    wire_dtype = tf.float16


class BF16Compressor(Compressor):
    """Sends float32 and float64 as bfloat16: the range of float32 with 8 bits of precision."""

    wire_dtype = tf.bfloat16


class Compression:
    """The ways to compress, for the argument `compression`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
