from __future__ import annotations

import threading

import pytest
import tensorflow as tf

from tf_fasthvd import _names


def test_sequential_calls_share_a_name():
    pool = _names.NamePool()
    names = set()
    for _ in range(100):
        with pool.borrow("allreduce") as name:
            names.add(name)
    assert names == {"allreduce.0"}


def test_calls_at_the_same_time_get_the_smallest_free_numbers():
    pool = _names.NamePool()
    with pool.borrow("a") as first:
        with pool.borrow("a") as second, pool.borrow("b") as other:
            assert (first, second, other) == ("a.0", "a.1", "b.0")
        with pool.borrow("a") as third:
            assert third == "a.1"


def test_a_name_comes_back_after_an_error():
    pool = _names.NamePool()
    with pytest.raises(RuntimeError), pool.borrow("a"):
        raise RuntimeError
    with pool.borrow("a") as name:
        assert name == "a.0"


def test_threads_never_share_a_name():
    pool = _names.NamePool()
    in_use: set[str] = set()
    clashes = []

    def work():
        for _ in range(500):
            with pool.borrow("a") as name:
                if name in in_use:
                    clashes.append(name)
                in_use.add(name)
                in_use.discard(name)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes
    with pool.borrow("a") as name:
        assert name == "a.0"


def test_names_in_graphs():
    with tf.Graph().as_default(), tf.name_scope("outer"):
        x = tf.constant(1.0, name="x")

        def next_name(name=None, ignore=False):
            with _names.name_of("allreduce", name, x, ignore) as (full, op_name):
                tf.no_op(op_name)
            return full

        assert next_name() == "outer/allreduce_outer_x_0"
        assert next_name() == "outer/allreduce_outer_x_0_1"
        assert next_name("mine") == "outer/mine"
        assert next_name("mine") == "outer/mine_1"
        assert next_name("mine", ignore=True) == "mine"
        assert next_name("mine", ignore=True) == "mine_1"
        assert next_name("kernel:0 of größe") == "outer/kernel_0_of_gr__e"


def test_eager_names_are_kept():
    with _names.name_of("allreduce", "my:name") as (full, op_name):
        assert (full, op_name) == ("my:name", None)


@pytest.mark.parametrize(("text", "name"), [("_a", "x_a"), ("a/b:0", "a/b_0"), ("", "x")])
def test_op_names(text, name):
    assert _names.op_name(text) == name
