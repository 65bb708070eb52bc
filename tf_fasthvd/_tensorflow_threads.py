"""TensorFlow's own threads, where several ranks share the cores of a host."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

_log = logging.getLogger("tf_fasthvd")

SETTING = "FASTHVD_TENSORFLOW_SPIN"


def may_spin(environment: Mapping[str, str] = os.environ) -> bool | None:
    """What the user says of TensorFlow's idle threads: whether they may poll before they sleep.

    Returns:
        None where the user leaves it open.

    Raises:
        ValueError: FASTHVD_TENSORFLOW_SPIN is neither 0 nor 1.
    """
    chosen = environment.get(SETTING, "")
    if chosen not in ("", "0", "1"):
        raise ValueError(f"{SETTING}={chosen} is neither 0 nor 1; leave it out for the default.")
    return chosen == "1" if chosen else None


def stop_spinning(rank: int) -> None:
    """Has TensorFlow start its thread pools so that idle threads sleep at once.

    Every rank has a pool thread for each core. Where ranks share a host, the idle threads of one
    that poll hold the cores that the work of another waits for.

    It takes effect for `tf.function` and eager execution, if TensorFlow has not started yet; the
    sessions of `tf.compat.v1` have the user's configuration.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context  # No public function sets this in TF 2.

    if not tf.executing_eagerly():
        return
    tensorflow = context.context()
    if tensorflow._initialized:
        if rank == 0:
            _log.warning(
                "TensorFlow was in use before tf_fasthvd.init(), so its idle threads go on polling "
                "and slow the other ranks of this host down; call init() before the first tensor."
            )
        return
    config = tf.compat.v1.ConfigProto()
    if tensorflow._config is not None:  # From tf.compat.v1.enable_eager_execution(config=...).
        config.CopyFrom(tensorflow._config)
    config.experimental.disable_thread_spinning = True
    tensorflow._config = config
