"""Callbacks that set the learning rate by the epoch, or by the batch within it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tf_fasthvd._context import rank, size


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """Sets the learning rate to `initial_lr` times a multiplier, from one epoch to another.

    Several of them, for epochs that follow on each other, make a schedule. At the end of every
    epoch the rate is added to the logs, as `lr`.

    A constant multiplier is just that, as Horovod's documentation and examples have it; its code
    raises the constant to the power of the epoch.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ):
        """Makes the callback.

        Args:
            initial_lr: What the multiplier multiplies.
            multiplier: A number, or a function from the epoch to a number.
            start_epoch: The first epoch in which the learning rate is set.
            end_epoch: The first epoch in which it is no longer set; None sets it to the end.
            staircase: Sets the rate at the start of each epoch. Otherwise it is set before each
                batch, and the function gets fractions: epoch + batch / steps_per_epoch.
            momentum_correction: When the rate changes, makes `SGD` and `RMSprop` scale the steps
                that their momentum remembers, which the old rate is part of, to the new rate.
            steps_per_epoch: Only needed if `staircase` is false and Keras does not know the
                number of batches.
        """
        super().__init__()
        if initial_lr is None:
            raise ValueError(f"{type(self).__name__} needs initial_lr, the rate to multiply.")
        self.initial_lr = initial_lr
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Checks that the rate can be set, and looks up the steps per epoch.

        Raises:
            ValueError: The rate cannot be set, or the number of steps is not known.
        """
        if not isinstance(self.model.optimizer.learning_rate, keras.Variable):
            raise ValueError(
                f"{type(self).__name__} cannot set the learning rate of an optimizer that has a "
                "schedule; make the optimizer with a number for its learning_rate."
            )
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise ValueError(
                    f"{type(self).__name__}: the number of batches per epoch is not known; give "
                    "steps_per_epoch to the callback."
                )

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Sets the rate of a staircase."""
        self.current_epoch = epoch
        if self.staircase and self._applies():
            self._set_rate(self.initial_lr * self.multiplier(epoch))

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Sets the rate of a smooth schedule."""
        if not self.staircase and self._applies():
            epoch = self.current_epoch + batch / self.steps_per_epoch
            self._set_rate(self.initial_lr * self.multiplier(epoch))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Logs the rate."""
        if logs is not None:
            logs["lr"] = self._rate()

    def _applies(self) -> bool:
        return self.start_epoch <= self.current_epoch and (
            self.end_epoch is None or self.current_epoch < self.end_epoch
        )

    def _set_rate(self, new: float) -> None:
        old = self._rate()
        self.model.optimizer.learning_rate.assign(new)
        new = self._rate()  # As it was rounded.
        if self.momentum_correction and new != old != 0.0:
            for step in _remembered_steps(self.model.optimizer):
                step.assign(keras.ops.multiply(step, keras.ops.cast(new / old, step.dtype)))

    def _rate(self) -> float:
        return float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate with every batch from `initial_lr / size()` to `initial_lr`.

    For large batches (many ranks), which a high rate from the start would make diverge: see
    "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", arxiv.org/abs/1706.02677.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ):
        """Makes the callback.

        Args:
            initial_lr: The rate to reach, with the last batch of the warm-up.
            warmup_epochs: How many epochs it takes.
            momentum_correction: See `LearningRateScheduleCallback`.
            steps_per_epoch: Only needed if Keras does not know the number of batches.
            verbose: 1 makes rank 0 tell when the warm-up is over.
        """
        super().__init__(
            initial_lr,
            self._share,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.warmup_epochs = warmup_epochs
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Logs the rate, and ends the warm-up."""
        if epoch == self.warmup_epochs - 1:
            # With steps_per_execution above 1 the last batch had no turn of its own.
            self._set_rate(self.initial_lr)
            if self.verbose and rank() == 0:
                print(
                    f"\nEpoch {epoch + 1}: the learning rate is warmed up to {self.initial_lr:g}."
                )
        super().on_epoch_end(epoch, logs)

    def _share(self, epoch: float) -> float:
        """The part of `initial_lr` for a batch; all of it for the last one of the warm-up."""
        done = (epoch + 1 / self.steps_per_epoch) / self.warmup_epochs
        return (1 + (size() - 1) * done) / size()


def _remembered_steps(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """The momentum variables that are sums of steps, each gradient times its learning rate.

    Other optimizers (Adam, Muon, …) remember gradients, which do not depend on the rate.
    Horovod scales the factor of the momentum for one batch, which for these variables comes to
    the same; but in Keras 3 the factor is a constant of the compiled step.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # Of a LossScaleOptimizer.
    if not optimizer.built:
        return []
    if isinstance(optimizer, keras.optimizers.SGD):
        return optimizer.momentums
    if isinstance(optimizer, keras.optimizers.RMSprop):
        return optimizer._momentums
    return []
