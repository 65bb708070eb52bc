"""The callbacks on several ranks."""

from __future__ import annotations

import checks
import keras
import numpy as np
import tensorflow as tf

import tf_fasthvd as hvd
from tf_fasthvd import _agreement


def same_everywhere(variables: list) -> bool:
    text = str([keras.ops.convert_to_numpy(v).tobytes().hex() for v in variables])
    return len(_agreement.texts_of_ranks(text, "same")) == 1


def data(samples: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(hvd.rank())
    return (
        rng.normal(size=(samples, 4)).astype(np.float32),
        rng.integers(0, 3, samples).astype(np.int32),
    )


def make_model(**compile_options) -> keras.Model:
    keras.utils.set_random_seed(hvd.rank())  # Every rank starts with other weights.
    model = keras.Sequential(
        [
            keras.Input([4]),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3),
        ]
    )
    model.compile(
        hvd.DistributedOptimizer(keras.optimizers.Adam(0.01 * (hvd.rank() + 1))),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **compile_options,
    )
    return model


class Look(keras.callbacks.Callback):
    """Compares the state of the ranks before the first batch and after it."""

    def __init__(self, look_before: bool = True):
        super().__init__()
        self.look_before = look_before
        self.before = None
        self.after = None

    def state(self) -> list:
        # Batch normalisation keeps statistics of each rank's own batches.
        own = [v for v in self.model.variables if "moving" not in v.path]
        return own + self.model.optimizer.variables

    def on_train_batch_begin(self, batch, logs=None):
        if self.before is None and self.look_before:
            self.before = same_everywhere(self.state())

    def on_train_batch_end(self, batch, logs=None):
        if self.after is None:
            self.after = same_everywhere(self.state())


def check_broadcast_before_the_first_batch() -> None:
    model = make_model()
    look = Look()
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    model.fit(*data(12), batch_size=4, verbose=0, callbacks=[broadcast, look])
    assert broadcast.broadcast_done and look.before and look.after
    np.testing.assert_allclose(float(model.optimizer.learning_rate), 0.01, 1e-6)


def check_state_of_the_optimizer() -> None:
    """The root goes on from a training that the others have not seen."""
    root = hvd.size() - 1
    model = make_model()
    model.optimizer.build(model.trainable_variables)
    if hvd.rank() == root:
        for variable in model.optimizer.variables[2:]:
            variable.assign(keras.ops.ones_like(variable) * 3)
        model.optimizer.iterations.assign(77)
    look = Look()
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(root)
    model.fit(*data(4), batch_size=4, verbose=0, callbacks=[broadcast, look])
    assert look.before
    assert int(model.optimizer.iterations) == 78
    np.testing.assert_allclose(float(model.optimizer.learning_rate), 0.01 * (root + 1), 1e-6)


class Unbuilt(keras.Model):
    """Has no weights before it is called with data."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3)

    def call(self, x):
        return self.dense(x)


def check_model_that_is_not_built() -> None:
    keras.utils.set_random_seed(hvd.rank())
    model = Unbuilt()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    look = Look(look_before=False)
    if hvd.rank() == 0:
        model(np.ones([1, 4], np.float32))  # Built here only.
    x = data(12)[0]
    model.fit(x, x[:, :3], batch_size=4, verbose=0, callbacks=[broadcast, look])
    assert broadcast.broadcast_done and look.after
    assert same_everywhere(model.variables)


def check_every_fit_starts_alike() -> None:
    model = make_model()
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    for _ in range(2):
        look = Look()
        model.layers[0].kernel.assign_add(tf.ones([4, 8]) * hvd.rank())
        model.fit(*data(4), batch_size=4, verbose=0, callbacks=[broadcast, look])
        assert look.before


def check_local_variables_stay() -> None:
    model = make_model()
    mine = model.layers[-1].bias
    mine.assign(np.full(3, hvd.rank(), np.float32))
    seen = []

    class LookAtMine(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            seen.append(np.array(mine))

    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=[mine])
    model.fit(*data(4), batch_size=4, verbose=0, callbacks=[broadcast, LookAtMine()])
    np.testing.assert_array_equal(seen[0], np.full(3, hvd.rank()))


class Logs(keras.callbacks.Callback):
    """Keeps what callbacks further down the list see."""

    def __init__(self):
        super().__init__()
        self.seen: list[dict] = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(dict(logs))


def check_metrics_are_means_over_samples() -> None:
    """Rank 0 trains and validates on many more samples than the others."""
    counts = [(100, 40)] + [(10, 8)] * (hvd.size() - 1)
    training, validation = counts[hvd.rank()]
    for options in ({}, {"steps_per_execution": 2}, {"run_eagerly": True}):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, use_bias=False)])
        model.layers[0].kernel.assign([[1.0]])
        # Not trained: the prediction is the input.
        model.compile(keras.optimizers.SGD(0.0), "mse", metrics=["mae", "mse"], **options)
        logs = Logs()
        value = hvd.rank() + 1.0
        model.fit(
            np.full([training, 1], value, np.float32),
            np.zeros([training, 1], np.float32),
            validation_data=(
                np.full([validation, 1], 2 * value, np.float32),
                np.zeros([validation, 1], np.float32),
            ),
            batch_size=8,
            epochs=2,
            verbose=0,
            callbacks=[hvd.callbacks.MetricAverageCallback(), logs],
        )
        values = np.arange(1.0, hvd.size() + 1)
        for number, prefix, factor in ((0, "", 1.0), (1, "val_", 2.0)):
            weights = np.array([count[number] for count in counts])
            expected = np.average(values * factor, weights=weights)
            expected_square = np.average((values * factor) ** 2, weights=weights)
            for seen in logs.seen:
                np.testing.assert_allclose(seen[f"{prefix}mae"], expected, 1e-5)
                np.testing.assert_allclose(seen[f"{prefix}mse"], expected_square, 1e-5)
                np.testing.assert_allclose(seen[f"{prefix}loss"], expected_square, 1e-5)
        assert set(logs.seen[0]) == {"loss", "mae", "mse", "val_loss", "val_mae", "val_mse"}


def check_history_has_the_averages() -> None:
    model = make_model(metrics=["accuracy"])
    history = model.fit(
        *data(16), verbose=0, callbacks=[hvd.callbacks.MetricAverageCallback()]
    ).history
    text = str(dict(sorted(history.items())))
    assert len(_agreement.texts_of_ranks(text, "history")) == 1


@checks.needs(2)
def check_rank_without_validation_samples_in_its_metric() -> None:
    """A metric that no sample has reached is not a zero."""
    logs = {"loss": float(hvd.rank() + 1)}
    callback = hvd.callbacks.MetricAverageCallback()
    model = make_model()
    callback.set_model(model)
    if hvd.rank() == 0:
        model._loss_tracker.update_state(1.0, sample_weight=4.0)
    else:
        logs["loss"] = float("nan")
    callback.on_epoch_end(0, logs)
    np.testing.assert_allclose(logs["loss"], 1.0)


@checks.needs(2)
def check_different_metrics_are_named() -> None:
    model = make_model(metrics=["accuracy"] if hvd.rank() == 1 else [])
    try:
        model.fit(*data(8), verbose=0, callbacks=[hvd.callbacks.MetricAverageCallback()])
    except ValueError as error:
        assert "rank 1 has accuracy" in str(error), error
        assert "rank 0 has none" in str(error), error
    else:
        raise AssertionError("different metrics were averaged")


def check_texts_of_ranks() -> None:
    assert _agreement.texts_of_ranks("same", "a") == ["same"]
    assert _agreement.texts_of_ranks("", "a") == [""]
    texts = [f"{'x' * rank} ü {rank}" for rank in range(hvd.size())]
    expected = texts if hvd.size() > 1 else texts[:1]
    assert _agreement.texts_of_ranks(texts[hvd.rank()], "b") == expected
    assert _agreement.all_ranks(True, "c")
    assert _agreement.all_ranks(hvd.rank() == 0, "c") == (hvd.size() == 1)


if __name__ == "__main__":
    checks.run_all(globals())
