from __future__ import annotations

import pytest

import tf_fasthvd as hvd


@pytest.mark.parametrize("name", hvd.__all__)
def test_every_public_name_exists(name):
    assert getattr(hvd, name) is not None
    assert name in dir(hvd)


def test_unknown_names_raise():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = hvd.no_such_name


def test_keras_flavour_has_its_names():
    from tf_fasthvd import keras as hvd_keras

    for name in hvd_keras.__all__:
        assert hasattr(hvd_keras, name)
