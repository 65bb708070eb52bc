from __future__ import annotations

import pytest

from tf_fasthvd import _tensorflow_threads


@pytest.mark.parametrize(("text", "value"), [("", None), ("0", False), ("1", True)])
def test_the_users_choice(text, value):
    assert _tensorflow_threads.may_spin({"FASTHVD_TENSORFLOW_SPIN": text}) is value
    assert _tensorflow_threads.may_spin({}) is None


def test_a_choice_that_is_none_is_named():
    with pytest.raises(ValueError, match="FASTHVD_TENSORFLOW_SPIN=yes is neither 0 nor 1"):
        _tensorflow_threads.may_spin({"FASTHVD_TENSORFLOW_SPIN": "yes"})
