"""The callbacks that set the learning rate, against rates and weights computed by hand."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

import checks
import keras
import numpy as np
import tensorflow as tf

import tf_fasthvd as hvd
from tf_fasthvd.keras.callbacks import LearningRateScheduleCallback, LearningRateWarmupCallback

STEPS = 4  # Batches in an epoch.
RATE = 0.08
X = np.random.default_rng(1).normal(size=(STEPS, 2)).astype(np.float32)
Y = X[:, :1] - 2 * X[:, 1:]


class Rates(keras.callbacks.Callback):
    """Keeps the learning rate of every batch and the logs of every epoch."""

    def __init__(self):
        super().__init__()
        self.batches: list[float] = []
        self.logged: list[float] = []

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(float(self.model.optimizer.learning_rate))

    def on_epoch_end(self, epoch, logs=None):
        self.logged.append(logs["lr"])


def fit(optimizer, *callbacks, epochs=4, **compile_options) -> tuple[Rates, np.ndarray]:
    """Trains two weights with batches of one sample; returns the rates and the weights."""
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1, use_bias=False)])
    model.layers[0].kernel.assign([[0.5], [0.5]])
    model.compile(hvd.DistributedOptimizer(optimizer), "mse", **compile_options)
    rates = Rates()
    model.fit(
        *(X, Y),
        batch_size=1,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), *callbacks, rates],
    )
    return rates, model.get_weights()[0]


def warmup_rates(epochs: int, warmup_epochs: int) -> list[float]:
    """A straight line whose start, before the first batch, is RATE / size."""
    line = np.linspace(RATE / hvd.size(), RATE, STEPS * warmup_epochs + 1)[1:]
    return [*line, *[RATE] * (STEPS * (epochs - warmup_epochs))]


def trained(rates: list[float], momentum: float, nesterov: bool, corrected: bool) -> np.ndarray:
    """The weights after SGD whose momentum is of gradients (corrected) or of steps."""
    w, kept = np.full((2, 1), 0.5), np.zeros((2, 1))
    for i, rate in enumerate(rates):
        x, y = X[i % STEPS, None].astype(np.float64), Y[i % STEPS, None]
        gradient = 2 * x.T @ (x @ w - y)
        new = gradient if corrected else rate * gradient
        kept = momentum * kept + new
        step = momentum * kept + new if nesterov else kept
        w = w - (rate * step if corrected else step)
    return w


def check_warmup() -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        rates, _ = fit(
            keras.optimizers.Adam(RATE), LearningRateWarmupCallback(RATE, 3, verbose=1), epochs=5
        )
    expected = warmup_rates(5, 3)
    np.testing.assert_allclose(rates.batches, expected, 1e-6)
    np.testing.assert_allclose(rates.logged, expected[STEPS - 1 :: STEPS], 1e-6)
    told = "Epoch 3: the learning rate is warmed up to 0.08." in out.getvalue()
    assert told == (hvd.rank() == 0), out.getvalue()


def check_warmup_is_over_in_a_later_epoch() -> None:
    """As when a training is resumed."""
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.5)), "mse")
    warmup, rates = LearningRateWarmupCallback(RATE, 2), Rates()
    callbacks = [warmup, rates]
    model.fit(X, Y, batch_size=1, initial_epoch=3, epochs=4, verbose=0, callbacks=callbacks)
    assert rates.batches == [0.5] * STEPS


def check_warmup_with_several_steps_per_execution() -> None:
    """Keras then asks callbacks only every so many batches."""
    rates, _ = fit(
        keras.optimizers.SGD(RATE), LearningRateWarmupCallback(RATE, 2), steps_per_execution=2
    )
    first_of_each_two = warmup_rates(2, 2)[::2]
    after = [RATE] * STEPS  # Two calls in each of two epochs.
    np.testing.assert_allclose(rates.batches, [*first_of_each_two, *after], 1e-6)
    np.testing.assert_allclose(rates.logged[1:], RATE, 1e-6)


def check_momentum_correction() -> None:
    for corrected in (True, False):
        for nesterov in (False, True):
            warmup = LearningRateWarmupCallback(RATE, 3, momentum_correction=corrected)
            drop = LearningRateScheduleCallback(
                RATE, 0.1, start_epoch=3, momentum_correction=corrected
            )
            optimizer = keras.optimizers.SGD(RATE, momentum=0.8, nesterov=nesterov)
            rates, weights = fit(optimizer, warmup, drop)
            expected = [*warmup_rates(3, 3), *[0.1 * RATE] * STEPS]
            np.testing.assert_allclose(rates.batches, expected, 1e-6)
            right = trained(expected, 0.8, nesterov, corrected)
            np.testing.assert_allclose(weights, right, 1e-4)
            other = trained(expected, 0.8, nesterov, not corrected)
            assert np.abs(other - right).max() > 1e-2  # The check can tell them apart.


def check_momentum_correction_of_other_optimizers() -> None:
    """RMSprop and scaled losses are corrected; what Adam and Muon remember has no rate in it."""
    sgd, rms = keras.optimizers.SGD(0.5, momentum=0.9), keras.optimizers.RMSprop(0.5, momentum=0.9)
    inner = keras.optimizers.SGD(0.5, momentum=0.9)
    plain, adam = keras.optimizers.SGD(0.5), keras.optimizers.Adam(0.5)
    muon = keras.optimizers.Muon(0.5)
    for optimizer, slots, factor in (
        (sgd, lambda: sgd.momentums, 0.1),
        (rms, lambda: rms._momentums, 0.1),
        (rms, lambda: rms._velocities, 1.0),
        (keras.optimizers.LossScaleOptimizer(inner), lambda: inner.momentums, 0.1),
        (plain, lambda: plain.variables[2:], 1.0),
        (adam, lambda: adam.variables[2:], 1.0),
        (muon, lambda: muon.variables[2:], 1.0),
    ):
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(2)])
        model.compile(optimizer, "mse")
        optimizer.learning_rate = 0.5
        callback = LearningRateScheduleCallback(0.05, 1.0)
        callback.set_model(model)
        callback.on_train_begin()
        if optimizer is not rms:
            callback.on_epoch_begin(0)  # Not built yet: nothing to correct.
            optimizer.learning_rate = 0.5
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        for slot in slots():
            slot.assign(keras.ops.ones_like(slot))
        callback.on_epoch_begin(1)
        np.testing.assert_allclose(float(optimizer.learning_rate), 0.05, 1e-6)
        for slot in slots():
            np.testing.assert_allclose(np.array(slot), np.full(slot.shape, factor), 1e-6)


def check_constants_make_a_staircase() -> None:
    callbacks = [
        LearningRateScheduleCallback(RATE, multiplier, start_epoch=start, end_epoch=end)
        for multiplier, start, end in ((1.0, 1, 2), (0.1, 2, 4), (0.01, 4, None))
    ]
    rates, _ = fit(keras.optimizers.SGD(0.5), *callbacks, epochs=6)
    expected = [0.5, RATE, 0.1 * RATE, 0.1 * RATE, 0.01 * RATE, 0.01 * RATE]
    np.testing.assert_allclose(rates.batches, np.repeat(expected, STEPS), 1e-6)
    np.testing.assert_allclose(rates.logged, expected, 1e-6)


def check_functions_of_the_epoch() -> None:
    seen: list[float] = []

    def multiplier(epoch: float) -> float:
        seen.append(epoch)
        return 0.5**epoch

    rates, _ = fit(keras.optimizers.SGD(0.5), LearningRateScheduleCallback(RATE, multiplier))
    assert seen == [0, 1, 2, 3] and all(isinstance(epoch, int) for epoch in seen)
    np.testing.assert_allclose(rates.batches, np.repeat(RATE * 0.5 ** np.arange(4), STEPS), 1e-6)
    seen.clear()
    smooth = LearningRateScheduleCallback(RATE, multiplier, 1, 3, staircase=False)
    rates, _ = fit(keras.optimizers.SGD(0.5), smooth)
    epochs = 1 + np.arange(2 * STEPS) / STEPS
    assert seen == list(epochs)
    last = RATE * 0.5 ** epochs[-1]
    expected = [*[0.5] * STEPS, *RATE * 0.5**epochs, *[last] * STEPS]
    np.testing.assert_allclose(rates.batches, expected, 1e-6)


def check_number_of_steps() -> None:
    """From Keras where it knows it, else from the caller."""

    def batches():
        for i in range(2 * STEPS):
            yield X[i % STEPS, None], Y[i % STEPS, None]

    for given in (None, STEPS):
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
        model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(RATE)), "mse")
        warmup, rates = LearningRateWarmupCallback(RATE, 2, steps_per_epoch=given), Rates()
        try:
            model.fit(batches(), verbose=0, callbacks=[warmup, rates])
        except ValueError as error:
            assert given is None and "steps_per_epoch" in str(error), error
        else:
            assert given, "the number of steps was guessed"
            np.testing.assert_allclose(rates.batches[:STEPS], warmup_rates(2, 2)[:STEPS], 1e-6)
    endless = tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(1)
    rates = Rates()
    warmup = LearningRateWarmupCallback(RATE, 1)
    model.fit(endless, steps_per_epoch=STEPS, verbose=0, callbacks=[warmup, rates])
    np.testing.assert_allclose(rates.batches, warmup_rates(1, 1), 1e-6)


def check_wrong_arguments() -> None:
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 10)
    for call, words in (
        (lambda: LearningRateScheduleCallback(None, 1.0), "initial_lr"),
        (lambda: fit(keras.optimizers.SGD(schedule), LearningRateWarmupCallback(RATE)), "schedule"),
    ):
        try:
            call()
        except ValueError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{words}: it was taken")


def check_horovods_keras_example() -> None:
    """Its calls and their arguments; only the images are others, and fewer."""
    import tf_fasthvd.keras as hvd

    hvd.init()
    images, labels = np.random.default_rng(hvd.rank()).random((512, 28, 28)), np.arange(512) % 10
    dataset = tf.data.Dataset.from_tensor_slices(
        (tf.cast(images[..., tf.newaxis], tf.float32), tf.cast(labels, tf.int64))
    )
    dataset = dataset.repeat().shuffle(1000).batch(32)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(8, [3, 3], activation="relu"),
            tf.keras.layers.MaxPooling2D(pool_size=(2, 2)),
            tf.keras.layers.Dropout(0.25),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    scaled_lr = 0.001 * hvd.size()
    opt = tf.optimizers.Adam(scaled_lr)
    opt = hvd.DistributedOptimizer(
        opt, backward_passes_per_step=1, average_aggregated_gradients=True
    )
    model.compile(
        loss=tf.losses.SparseCategoricalCrossentropy(), optimizer=opt, metrics=["accuracy"]
    )
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=3, verbose=1),
    ]
    with tempfile.TemporaryDirectory() as folder:
        if hvd.rank() == 0:
            callbacks.append(
                tf.keras.callbacks.ModelCheckpoint(f"{folder}/checkpoint-{{epoch}}.h5")
            )
        history = model.fit(
            dataset,
            steps_per_epoch=8 // hvd.size(),
            callbacks=callbacks,
            epochs=4,
            verbose=1 if hvd.rank() == 0 else 0,
        ).history
        assert len(list(Path(folder).glob("checkpoint-*.h5"))) == (4 if hvd.rank() == 0 else 0)
    np.testing.assert_allclose(history["lr"][-1], scaled_lr, 1e-6)


if __name__ == "__main__":
    checks.run_all(globals())
