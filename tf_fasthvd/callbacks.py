"""Callbacks for `keras.Model.fit`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_fasthvd import _agreement, _native, _optimizer, _variables
from tf_fasthvd._learning_rate import LearningRateScheduleCallback, LearningRateWarmupCallback
from tf_fasthvd._reduce_ops import Sum

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]

_log = logging.getLogger("tf_fasthvd")


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """Starts the training from the same state on all ranks.

    At the start of `fit` all ranks get rank `root_rank`'s weights, seed generators, and the state
    of the optimizer: slots, iterations and learning rate. If a model is not built then, this
    happens after its first batch instead.
    """

    def __init__(
        self, root_rank: int, device: str = "", local_variables: Iterable[Any] | Any | None = None
    ):
        """Makes the callback.

        Args:
            root_rank: The rank whose state all get.
            device: Not used: variables are read and written where they are.
            local_variables: Variables that every rank keeps for itself.
        """
        super().__init__()
        if local_variables is None:
            local_variables = []
        elif isinstance(local_variables, (tf.Variable, keras.Variable)):
            local_variables = [local_variables]
        self.root_rank = root_rank
        self.broadcast_done = False
        self._local = {id(_variables.native_variable(variable)) for variable in local_variables}

    def register_local_var(self, var: Any) -> None:
        """Adds a variable that every rank keeps for itself."""
        self._local.add(id(_variables.native_variable(var)))

    def set_model(self, model: keras.Model) -> None:
        """Keeps Keras from compiling a distributed training step with XLA."""
        super().set_model(model)
        if model.jit_compile and _optimizer.is_distributed(model.optimizer):
            _log.warning(
                "tf_fasthvd: compiling with jit_compile=False, because the collectives of the "
                "distributed optimizer cannot be compiled by XLA yet."
            )
            model.jit_compile = False
            model.train_function = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Broadcasts, if the model is built on all ranks."""
        self.broadcast_done = False
        if _agreement.all_ranks(self.model.built, "BroadcastGlobalVariablesCallback/built"):
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Broadcasts after the first batch if there was no model to broadcast before."""
        if not self.broadcast_done:
            self._broadcast()

    def _broadcast(self) -> None:
        variables = list(self.model.variables)
        optimizer = getattr(self.model, "optimizer", None)
        if optimizer is not None:
            if not optimizer.built:
                optimizer.build(self.model.trainable_variables)
            variables += optimizer.variables
        distinct = {id(_variables.native_variable(v)): v for v in variables}
        shared = [v for identity, v in distinct.items() if identity not in self._local]
        _variables.broadcast_(shared, self.root_rank, name="BroadcastGlobalVariablesCallback")
        self.broadcast_done = True


class MetricAverageCallback(keras.callbacks.Callback):
    """Averages the logs of an epoch over all ranks, weighted by the samples that each has seen.

    Callbacks further down the list see the averages, so put it before those that use metrics
    (`ReduceLROnPlateau`, `EarlyStopping`, `ModelCheckpoint`, `TensorBoard`, …).

    Weights are exact for metrics that are means (`keras.metrics.Mean` and the like, the loss
    included): the number of values, or the sum of the sample weights, in the mean. Others, like
    AUC, are weighted by the number of samples.
    """

    def __init__(self, device: str = ""):
        """Makes the callback.

        Args:
            device: Not used.
        """
        super().__init__()
        self._training_counts: dict[str, float] | None = None
        self._validation_counts: dict[str, float] = {}

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Forgets the counts of the epoch before."""
        self._training_counts = None
        self._validation_counts = {}

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Notes the counts of training: validation starts the same metrics anew."""
        if self._training_counts is None:
            self._training_counts = self._counts()

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Notes the counts of validation."""
        self._validation_counts = self._counts()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Replaces the values in `logs` by their averages over the ranks.

        Raises:
            ValueError: Ranks have different metrics; raised on all of them.
        """
        if logs is None:
            logs = {}
        training = self._counts() if self._training_counts is None else self._training_counts
        numbers = {key: value for key, value in sorted(logs.items()) if np.isscalar(value)}
        _check_same_keys(list(numbers))
        if not numbers:
            return
        values = np.array(list(numbers.values()), np.float64)
        weights = np.array([self._weight(key, training) for key in numbers], np.float64)
        (summed,) = _native.allreduce(
            [tf.constant(np.stack([np.where(weights > 0, values * weights, 0.0), weights]))],
            op=Sum,
            name="MetricAverageCallback",
        )
        totals, total_weights = summed.numpy()
        for key, total, total_weight in zip(numbers, totals, total_weights, strict=True):
            if total_weight > 0:
                logs[key] = float(total / total_weight)

    def _weight(self, key: str, training: dict[str, float]) -> float:
        """What the value of `key` counts; 1 where the number of samples is not known."""
        counts = training
        if key.startswith("val_") and key not in training:
            key, counts = key.removeprefix("val_"), self._validation_counts
        return counts.get(key, counts.get("loss", 1.0))

    def _counts(self) -> dict[str, float]:
        """The number of values in each mean of the model, by the metric's name."""
        return {
            metric.name: float(keras.ops.convert_to_numpy(metric.count))
            for metric in _flat_metrics(self.model.metrics)
            if isinstance(metric, keras.metrics.Mean)
        }


def _flat_metrics(metrics: Iterable[Any]) -> list[keras.metrics.Metric]:
    """The metrics themselves, also those that `compile` put into a container."""
    flat = []
    for metric in metrics:
        inner = getattr(metric, "metrics", None)
        flat += _flat_metrics(inner) if inner else [metric]
    return flat


def _check_same_keys(keys: list[str]) -> None:
    """Raises on every rank, and names what differs, unless all have the same keys."""
    texts = _agreement.texts_of_ranks(json.dumps(keys), "MetricAverageCallback/keys")
    if len(texts) == 1:
        return
    keys_of = [set(json.loads(text)) for text in texts]
    everywhere = set.intersection(*keys_of)
    differing = "; ".join(
        f"rank {rank} has {', '.join(sorted(keys - everywhere)) or 'none of them'}"
        for rank, keys in enumerate(keys_of)
    )
    raise ValueError(
        f"MetricAverageCallback: the ranks have different metrics: {differing}. Compile the same "
        "metrics on all ranks, and validate on all of them or on none."
    )
