"""Finds out whether all ranks see the same, before a collective that takes it for granted."""

from __future__ import annotations

import hashlib

import numpy as np
import tensorflow as tf

from tf_fasthvd import _native
from tf_fasthvd._context import context
from tf_fasthvd._reduce_ops import Max, Min, Sum


def all_ranks(flag: bool, name: str) -> bool:
    """Whether `flag` is true on every rank. Eager; all ranks call it under the same name."""
    (least,) = _native.allreduce([tf.constant(int(flag), tf.uint8)], op=Min, name=name)
    return bool(least.numpy())


def texts_of_ranks(text: str, name: str) -> list[str]:
    """The text of every rank, in rank order; only `[text]` if it is the same on all ranks.

    Eager; all ranks call it under the same name.
    """
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], np.int64)
    # Of a number and its complement the minima fit together only if all ranks have the same.
    (least,) = _native.allreduce(
        [tf.constant(np.concatenate([digest, ~digest]))], op=Min, name=f"{name}/digest"
    )
    if least.numpy()[0] == ~least.numpy()[1]:
        return [text]
    return _gather(text, name)


def _gather(text: str, name: str) -> list[str]:
    data = np.frombuffer(text.encode(), np.uint8)
    topology = context.topology
    (longest,) = _native.allreduce(
        [tf.constant(data.size, tf.int64)], op=Max, name=f"{name}/longest"
    )
    rows = np.zeros((topology.size, int(longest.numpy())), np.uint8)
    rows[topology.rank, : data.size] = data
    (gathered,) = _native.allreduce([tf.constant(rows)], op=Sum, name=f"{name}/texts")
    return [row.tobytes().rstrip(b"\0").decode() for row in gathered.numpy()]
