"""The exceptions of this package.

Horovod's own classes are used where the `horovod` package is installed, so that scripts and
elastic training that catch them keep working.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

try:
    from horovod.common.exceptions import HorovodInternalError
except ImportError:

    class HorovodInternalError(RuntimeError):
        """A collective failed because a peer is gone; the job cannot go on as it is."""


# The native ops start the message of an error about a lost peer so.
LOST_PEER_PREFIX = "HorovodInternalError:"

NOT_INITIALIZED = "tf_fasthvd has not been initialized; call tf_fasthvd.init() first."

FORKED = (
    "tf_fasthvd cannot be used in a process that rank {rank} has forked: only the rank itself "
    "takes part in the job. Do it there, or start the process afresh, with "
    "multiprocessing.get_context('spawn')."
)


def lost_peer_text(message: str) -> str | None:
    """The part of an op's error message that tells of a lost peer, or None if it does not."""
    _, found, text = message.partition(LOST_PEER_PREFIX)
    if not found:
        return None
    return text.partition(" [Op:")[0].strip()


@contextlib.contextmanager
def translate_lost_peer() -> Iterator[None]:
    """Raises `HorovodInternalError` where TensorFlow raises the native ops' error for it."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.InternalError as error:
        text = lost_peer_text(error.message)
        if text is None:
            raise
        raise HorovodInternalError(text) from error
