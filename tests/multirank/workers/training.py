"""Training on N ranks with the batch split N ways equals one process on the whole batch."""

from __future__ import annotations

import copy
import functools
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import checks
import keras
import numpy as np
import tensorflow as tf

import tf_fasthvd as hvd
from tf_fasthvd import _agreement
from tf_fasthvd._optimizer import is_distributed

BATCH = 24  # Divisible by 1, 2, 3 and 4.
STEPS = 6


def data(samples: int = BATCH * STEPS) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(samples, 8)).astype(np.float32)
    y = (x[:, :1] * 2 - x[:, 1:2] + rng.normal(size=(samples, 1)) * 0.1).astype(np.float32)
    return x, y


def own_share(parts: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Of every batch this rank's part, batches in the same order."""
    each = BATCH // hvd.size()
    first = hvd.rank() * each
    return tuple(
        part.reshape(-1, BATCH, *part.shape[1:])[:, first : first + each].reshape(
            -1, *part.shape[1:]
        )
        for part in parts
    )


def make_model(seed: int = 3) -> keras.Model:
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [keras.Input([8]), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)]
    )


def fit(
    model: keras.Model, optimizer: Any, parts: tuple[np.ndarray, ...], batch: int, **compile_options
) -> keras.callbacks.History:
    callbacks = compile_options.pop("callbacks", [])
    epochs = compile_options.pop("epochs", 2)
    model.compile(optimizer, loss=keras.losses.MeanSquaredError(), **compile_options)
    return model.fit(
        *parts, batch_size=batch, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks
    )


def weights_of(model: keras.Model) -> list[np.ndarray]:
    return [np.array(weight) for weight in model.get_weights()]


def same_everywhere(arrays: list[Any]) -> bool:
    text = str([np.asarray(array).tobytes().hex() for array in arrays])
    return len(_agreement.texts_of_ranks(text, "same weights")) == 1


class SameWeights(keras.callbacks.Callback):
    """Looks after every epoch whether all ranks have the same bits."""

    def __init__(self):
        super().__init__()
        self.epochs: list[bool] = []

    def on_epoch_end(self, epoch, logs=None):
        variables = [v.numpy() for v in self.model.variables + self.model.optimizer.variables]
        self.epochs.append(same_everywhere(variables))


def assert_close(actual: list[np.ndarray], expected: list[np.ndarray], tolerance=1e-5) -> None:
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, tolerance, tolerance)


@functools.cache
def of_one_process(make_optimizer: Callable[[], Any]) -> list[np.ndarray]:
    """The weights after training on whole batches, without any of this package."""
    model = make_model()
    fit(model, make_optimizer(), data(), BATCH)
    return weights_of(model)


def equals_one_process(
    make_optimizer: Callable[[], Any], distribute: Callable[[Any], Any], **compile_options
) -> None:
    split = make_model()
    same = SameWeights()
    fit(
        split,
        distribute(make_optimizer()),
        own_share(data()),
        BATCH // hvd.size(),
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), same],
        **compile_options,
    )
    assert same.epochs == [True, True], same.epochs
    assert_close(weights_of(split), of_one_process(make_optimizer))


def sgd() -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(0.05, momentum=0.9)


def adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(0.01)


def check_sgd() -> None:
    equals_one_process(sgd, hvd.DistributedOptimizer)


def check_adam() -> None:
    equals_one_process(adam, hvd.DistributedOptimizer)


def check_other_optimizers() -> None:
    for make in (
        lambda: keras.optimizers.AdamW(0.01, weight_decay=0.01),
        lambda: keras.optimizers.RMSprop(
            keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.9), use_ema=True
        ),
        lambda: keras.optimizers.SGD(0.05, gradient_accumulation_steps=2),
    ):
        equals_one_process(make, hvd.DistributedOptimizer)


def check_steps_per_execution() -> None:
    for make in (sgd, adam):
        equals_one_process(make, hvd.DistributedOptimizer, steps_per_execution=3)


def check_eager() -> None:
    for make in (sgd, adam):
        equals_one_process(make, hvd.DistributedOptimizer, run_eagerly=True)


def check_groups() -> None:
    equals_one_process(sgd, lambda opt: hvd.DistributedOptimizer(opt, groups=2))
    equals_one_process(sgd, lambda opt: hvd.DistributedOptimizer(opt, num_groups=3))
    equals_one_process(sgd, lambda opt: hvd.DistributedOptimizer(opt, groups=2), run_eagerly=True)
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(), groups=[model.trainable_variables[:2]])
    fit(model, optimizer, own_share(data()), BATCH // hvd.size())
    assert_close(weights_of(model), of_one_process(sgd))


def check_predivide_factor() -> None:
    equals_one_process(
        sgd, lambda opt: hvd.DistributedOptimizer(opt, gradient_predivide_factor=3.0)
    )


def check_sum_of_gradients() -> None:
    whole = make_model()
    fit(whole, keras.optimizers.SGD(0.01 * hvd.size()), data(), BATCH)
    split = make_model()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01), op=hvd.Sum)
    fit(split, optimizer, own_share(data()), BATCH // hvd.size())
    assert_close(weights_of(split), weights_of(whole))


def check_compression() -> None:
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        split = make_model()
        optimizer = hvd.DistributedOptimizer(sgd(), compression=compression)
        fit(split, optimizer, own_share(data()), BATCH // hvd.size())
        assert same_everywhere(weights_of(split))
        assert_close(weights_of(split), of_one_process(sgd), 5e-2)


def check_clipping_is_after_averaging() -> None:
    """global_clipnorm with gradients 10 on rank 0 and 0 on the others."""
    for options in ({"global_clipnorm": 1.0}, {"clipnorm": 1.0}, {"clipvalue": 1.0}):
        variable = keras.Variable([0.0])
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0, **options))
        optimizer.apply([tf.constant([10.0 * (hvd.rank() == 0)])], [variable])
        np.testing.assert_allclose(variable.numpy(), [-1.0])
        assert same_everywhere([variable.numpy()])


def check_tape() -> None:
    x, y = own_share(data())
    each = BATCH // hvd.size()
    for wrap in (lambda step: step, tf.function):
        model, optimizer = make_model(), sgd()
        optimizer.build(model.trainable_variables)

        def step(x, y, model=model, optimizer=optimizer):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            tape = hvd.DistributedGradientTape(tape)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        step = wrap(step)
        for _ in range(2):
            for i in range(0, len(x), each):
                step(tf.constant(x[i : i + each]), tf.constant(y[i : i + each]))
        assert same_everywhere(weights_of(model))
        assert_close(weights_of(model), of_one_process(sgd))


def check_tape_structures() -> None:
    rank, n = float(hvd.rank()), hvd.size()
    v = tf.Variable([1.0, 2.0])
    w = keras.Variable(3.0)
    unused = tf.Variable(0.0)
    constant = tf.constant(2.0)

    def compute() -> tuple:
        with hvd.DistributedGradientTape(tf.GradientTape(persistent=True)) as tape:
            tape.watch(constant)
            loss = tf.reduce_sum(v) * w * constant * (rank + 1.0)
        structure = tape.gradient(loss, {"v": v, "rest": [w, unused], "c": constant})
        single = tape.gradient(loss, v)
        zero = tape.gradient(loss, [unused], unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return structure, single, zero

    mean = (n + 1) / 2
    in_function = tf.function(lambda: [t for t in tf.nest.flatten(compute()) if t is not None])()
    structure, single, zero = compute()
    assert structure["rest"][1] is None
    np.testing.assert_allclose(structure["v"], np.full(2, 6.0 * mean), 1e-6)
    np.testing.assert_allclose(structure["rest"][0], 6.0 * mean, 1e-6)
    np.testing.assert_allclose(structure["c"], 9.0 * mean, 1e-6)
    np.testing.assert_allclose(single, structure["v"], 1e-6)
    np.testing.assert_array_equal(zero, [0.0])
    eager = [t for t in tf.nest.flatten((structure, single, zero)) if t is not None]
    for a, b in zip(in_function, eager, strict=True):
        np.testing.assert_allclose(a, b, 1e-6)


def check_sparse_gradients() -> None:
    """Embedding rows {0, 1} on one rank and {0, 2} on the other; Adam, as with dense gradients."""

    def make() -> keras.Model:
        keras.utils.set_random_seed(1)
        embedding = keras.layers.Embedding(5, 3)
        model = keras.Sequential([keras.Input([2], dtype="int32"), embedding])
        model.add(keras.layers.Flatten())
        model.add(keras.layers.Dense(1))
        return model

    rows = np.array([[0, rank % 3 + 1] for rank in range(hvd.size())] * 4, np.int32)
    labels = np.arange(len(rows), dtype=np.float32)[:, None]
    own = slice(hvd.rank(), None, hvd.size())
    for options, compile_options in (({}, {}), ({"sparse_as_dense": True}, {"run_eagerly": True})):
        split = make()
        optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.1), **options)
        fit(split, optimizer, (rows[own], labels[own]), 1, **compile_options)
        # As dense gradients: no row is updated that no rank has seen, but all decay alike.
        whole = make()
        whole.compile(keras.optimizers.Adam(0.1), "mse")
        for _ in range(2):
            for i in range(0, len(rows), hvd.size()):
                x, y = rows[i : i + hvd.size()], labels[i : i + hvd.size()]
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((whole(x) - y) ** 2)
                gradients = tape.gradient(loss, whole.trainable_variables)
                gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
                whole.optimizer.apply(gradients, whole.trainable_variables)
        assert same_everywhere(weights_of(split))
        assert_close(weights_of(split), weights_of(whole), 1e-4)


def check_embedding_with_gradient_accumulation() -> None:
    """Two passes a step, with other rows in each and on each rank, as with dense gradients."""

    def make() -> keras.Model:
        keras.utils.set_random_seed(1)
        embedding = keras.layers.Embedding(8, 2)
        model = keras.Sequential([keras.Input([1], dtype="int32"), embedding])
        model.add(keras.layers.Flatten())
        model.add(keras.layers.Dense(1))
        return model

    n = hvd.size()
    rows = (np.arange(4 * n, dtype=np.int32) % 7)[:, None]
    labels = np.arange(4 * n, dtype=np.float32)[:, None]
    split = make()
    split_optimizer = keras.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=2)
    own = slice(hvd.rank(), None, n)
    fit(split, hvd.DistributedOptimizer(split_optimizer), (rows[own], labels[own]), 1)
    whole = make()
    fit(whole, keras.optimizers.SGD(0.1, momentum=0.9), (rows, labels), 2 * n)
    assert same_everywhere(weights_of(split))
    assert_close(weights_of(split), weights_of(whole))


def check_bfloat16_model() -> None:
    """Variables, gradients and slots of bfloat16."""
    start = weights_of(make_model())
    keras.config.set_dtype_policy("bfloat16")
    try:
        model = make_model()
        model.set_weights(start)
        same = SameWeights()
        optimizer = hvd.DistributedOptimizer(sgd())
        fit(model, optimizer, own_share(data()), BATCH // hvd.size(), callbacks=[same])
    finally:
        keras.config.set_dtype_policy("float32")
    assert model.layers[0].kernel.dtype == "bfloat16" and same.epochs == [True, True]
    assert_close(weights_of(model), of_one_process(sgd), 0.1)


def check_skipped_layer() -> None:
    """Variables without a gradient are left out on all ranks."""
    for compile_options in ({}, {"run_eagerly": True}):
        keras.utils.set_random_seed(1)
        inputs = keras.Input([8])
        used = keras.layers.Dense(1)
        model = keras.Model(inputs, used(inputs))
        model.unused = keras.layers.Dense(4)
        model.unused.build([None, 8])
        before = np.array(model.unused.kernel)
        fit(model, hvd.DistributedOptimizer(adam()), own_share(data()), 3, **compile_options)
        np.testing.assert_array_equal(before, model.unused.kernel)
        assert same_everywhere(weights_of(model))


@checks.needs(2)
def check_rank_that_builds_more_models() -> None:
    """Keras numbers its layers; the ranks may count differently."""
    if hvd.rank() == 1:
        make_model()
        keras.layers.Dense(1).build([None, 1])
        adam()
    equals_one_process(adam, hvd.DistributedOptimizer)


def check_two_optimizers_in_one_function() -> None:
    """As in a GAN: layers of the same name in two models."""

    def make() -> keras.Model:
        return keras.Sequential([keras.Input([2]), keras.layers.Dense(1, name="same")], name="same")

    keras.utils.set_random_seed(1)
    models = [make(), make()]
    optimizers = [hvd.DistributedOptimizer(sgd()) for _ in models]
    for model, optimizer in zip(models, optimizers, strict=True):
        optimizer.build(model.trainable_variables)

    @tf.function
    def step(x):
        with tf.GradientTape(persistent=True) as tape:
            losses = [tf.reduce_mean(model(x) ** 2) for model in models]
        for loss, model, optimizer in zip(losses, models, optimizers, strict=True):
            variables = model.trainable_variables
            optimizer.apply(tape.gradient(loss, variables), variables)

    for _ in range(3):
        step(tf.ones([4, 2]) * (hvd.rank() + 1.0))
    assert all(same_everywhere(weights_of(model)) for model in models)


def check_class_of_the_optimizer() -> None:
    optimizer = keras.optimizers.AdamW(0.01)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    wrapped = hvd.DistributedOptimizer(optimizer)
    assert wrapped is optimizer and isinstance(wrapped, keras.optimizers.AdamW)
    assert type(wrapped).__name__ == "AdamW"
    assert wrapped.get_config() == keras.optimizers.AdamW(0.01, name=wrapped.name).get_config()
    for twin in (
        type(wrapped).from_config(wrapped.get_config()),
        copy.deepcopy(wrapped),
        pickle.loads(pickle.dumps(wrapped)),
    ):
        assert is_distributed(twin) and isinstance(twin, keras.optimizers.AdamW)
        variable = keras.Variable([1.0])
        twin.apply([tf.constant([float(hvd.rank())])], [variable])
        assert same_everywhere([variable.numpy()])
    try:
        hvd.DistributedOptimizer(wrapped)
    except ValueError as error:
        assert "only once" in str(error)
    else:
        raise AssertionError("wrapped twice")


@keras.saving.register_keras_serializable("tests")
class Custom(keras.optimizers.SGD):
    pass


def check_saved_model_opens_without_the_package() -> None:
    opened = """
import sys, keras
model = keras.models.load_model(sys.argv[1])
assert type(model.optimizer) is keras.optimizers.Adam, type(model.optimizer)
assert int(model.optimizer.iterations) == 12
assert not any(name.startswith('tf_fasthvd') for name in sys.modules)
"""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("h5", "keras"):
            model = make_model()
            fit(model, hvd.DistributedOptimizer(adam()), own_share(data()), BATCH // hvd.size())
            path = f"{folder}/model.{suffix}"
            model.save(path)
            if hvd.rank() == 0:
                clean = {k: v for k, v in os.environ.items() if not k.startswith("HOROVOD")}
                subprocess.run([sys.executable, "-c", opened, path], env=clean, check=True)
        # It goes on where it was, distributed again.
        loaded = keras.models.load_model(path)
        loaded.optimizer = hvd.DistributedOptimizer(loaded.optimizer)
        assert int(loaded.optimizer.iterations) == 12
        loaded.fit(*own_share(data()), verbose=0)
        assert same_everywhere(weights_of(loaded))
        model = make_model()
        fit(model, hvd.DistributedOptimizer(Custom(0.1)), own_share(data()), BATCH // hvd.size())
        model.save(f"{folder}/custom.keras")
        loaded = keras.models.load_model(f"{folder}/custom.keras")
        assert type(loaded.optimizer) is Custom


def mixed_model() -> keras.Model:
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input([8]), keras.layers.Dense(1, dtype="mixed_float16")])


def apply_one(optimizer, variable, gradient) -> None:
    optimizer.apply([gradient], [variable])


@checks.needs(2)
def check_loss_scaling_in_both_orders() -> None:
    """An infinite gradient on rank 1 only: all ranks skip the step and halve the scale."""
    scaling = keras.optimizers.LossScaleOptimizer
    for make in (
        lambda: hvd.DistributedOptimizer(scaling(sgd(), initial_scale=8.0)),
        lambda: scaling(hvd.DistributedOptimizer(sgd()), initial_scale=8.0),
    ):
        for wrap in (lambda function: function, tf.function):
            variable = keras.Variable([1.0])
            optimizer = make()
            optimizer.build([variable])
            apply = wrap(functools.partial(apply_one, optimizer, variable))
            infinite = np.inf if hvd.rank() == 1 else 8.0
            apply(tf.constant([infinite], tf.float32))
            assert float(optimizer.dynamic_scale) == 4.0
            np.testing.assert_array_equal(variable.numpy(), [1.0])
            apply(tf.constant([4.0 * (hvd.rank() + 1)], tf.float32))
            mean = (hvd.size() + 1) / 2
            np.testing.assert_allclose(variable.numpy(), [1.0 - 0.05 * mean], 1e-6)


def check_mixed_precision_policy() -> None:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        optimizer = hvd.DistributedOptimizer(sgd())
        assert isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        model = make_model()
        same = SameWeights()
        fit(model, optimizer, own_share(data()), BATCH // hvd.size(), callbacks=[same])
        assert model.optimizer is optimizer
        assert same.epochs == [True, True]
    finally:
        keras.config.set_dtype_policy("float32")
    # A policy of the model alone: compile puts the loss scaling around ours.
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(1, dtype="mixed_float16")])
    model.dtype_policy = keras.DTypePolicy("mixed_float16")
    same = SameWeights()
    optimizer = hvd.DistributedOptimizer(sgd())
    fit(model, optimizer, own_share(data()), BATCH // hvd.size(), callbacks=[same])
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert is_distributed(model.optimizer)
    assert same.epochs == [True, True]


def check_xla_is_refused_or_switched_off() -> None:
    model = make_model()
    try:
        fit(model, hvd.DistributedOptimizer(sgd()), own_share(data()), 6, jit_compile=True)
    except NotImplementedError as error:
        assert "jit_compile=False" in str(error)
    else:
        raise AssertionError("compiled by XLA")
    same = SameWeights()
    fit(
        model,
        hvd.DistributedOptimizer(sgd()),
        own_share(data()),
        6,
        jit_compile=True,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), same],
    )
    assert same.epochs == [True, True]


def apply_twice(optimizer, scale, weight, gradient) -> None:
    optimizer.apply([gradient, gradient], [scale, weight])


def check_overwriting_variables() -> None:
    """Variables that take their gradient as their value get the largest of all ranks."""
    for wrap in (lambda function: function, tf.function):
        scale = keras.Variable([1.0])
        scale.overwrite_with_gradient = True
        weight = keras.Variable([1.0])
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
        optimizer.build([scale, weight])
        apply = wrap(functools.partial(apply_twice, optimizer, scale, weight))
        apply(tf.constant([float(hvd.rank())]))
        np.testing.assert_array_equal(scale.numpy(), [hvd.size() - 1])
        np.testing.assert_allclose(weight.numpy(), [1.0 - (hvd.size() - 1) / 2])


def check_overlap_with_the_backward_pass() -> None:
    """In the graph no gradient's allreduce waits for another one's."""
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd())
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    graph = step.get_concrete_function(tf.ones([2, 8])).graph
    reductions = [op for op in graph.get_operations() if op.type == "FasthvdAllreduce"]
    assert len(reductions) == 4
    for op in reductions:
        assert not [c for c in op.control_inputs if c.type == "FasthvdAllreduce"]


def check_arguments_of_horovods_example() -> None:
    hvd.DistributedOptimizer(
        keras.optimizers.SGD(), backward_passes_per_step=1, average_aggregated_gradients=True
    )


def check_refused_arguments() -> None:
    for arguments, kind, word in (
        ({"backward_passes_per_step": 2}, NotImplementedError, "gradient_accumulation_steps=2"),
        ({"op": hvd.Adasum}, NotImplementedError, "Average"),
        ({"op": hvd.Max}, ValueError, "Sum"),
        ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, ValueError, "Average"),
        ({"gradient_predivide_factor": 0.0}, ValueError, "positive"),
        ({"groups": 0}, ValueError, "groups"),
        ({"groups": "all"}, ValueError, "groups"),
        ({"process_set": object()}, NotImplementedError, "process_set"),
    ):
        try:
            hvd.DistributedOptimizer(sgd(), **arguments)
        except kind as error:
            assert word in str(error), error
        else:
            raise AssertionError(f"{arguments} was taken")
    for optimizer in (tf.compat.v1.train.GradientDescentOptimizer(0.1), object(), "sgd"):
        try:
            hvd.DistributedOptimizer(optimizer)
        except NotImplementedError as error:
            assert "Keras 3" in str(error)
        else:
            raise AssertionError(f"{optimizer} was taken")


if __name__ == "__main__":
    checks.run_all(globals())
