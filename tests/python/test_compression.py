from __future__ import annotations

import pytest
import tensorflow as tf

from tf_fasthvd._compression import Compression


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32])
@pytest.mark.parametrize("compressor", [Compression.none, Compression.fp16, Compression.bf16])
def test_round_trip(compressor, dtype):
    tensor = tf.cast([1.5, -2.0, 0.0], dtype)
    sent, context = compressor.compress(tensor)
    back = compressor.decompress(sent, context)
    assert back.dtype == dtype
    assert tf.reduce_all(back == tensor)


def test_what_is_sent():
    tensor = tf.constant([1.0])
    assert Compression.none.compress(tensor)[0] is tensor
    assert Compression.fp16.compress(tensor)[0].dtype == tf.float16
    assert Compression.bf16.compress(tensor)[0].dtype == tf.bfloat16
    integers = tf.constant([1])
    assert Compression.fp16.compress(integers)[0] is integers
