from __future__ import annotations

import pytest
import tensorflow as tf

from tf_fasthvd import _errors


def test_a_lost_peer_is_translated():
    message = "{{function_node x}} HorovodInternalError: rank 1 is gone [Op:FasthvdAllreduce]"
    with (
        pytest.raises(_errors.HorovodInternalError, match="^rank 1 is gone$"),
        _errors.translate_lost_peer(),
    ):
        raise tf.errors.InternalError(None, None, message)


@pytest.mark.parametrize("kind", [tf.errors.InternalError, tf.errors.InvalidArgumentError])
def test_other_errors_pass(kind):
    with pytest.raises(kind, match="out of memory"), _errors.translate_lost_peer():
        raise kind(None, None, "out of memory")


def test_horovods_class_is_used():
    exceptions = pytest.importorskip("horovod.common.exceptions")
    assert _errors.HorovodInternalError is exceptions.HorovodInternalError
