"""`DistributedOptimizer`: a Keras optimizer that first combines the gradients of all ranks."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras.src.saving import object_registration

from tf_fasthvd import _native, _reduction
from tf_fasthvd._compression import Compression, Compressor
from tf_fasthvd._process_sets import ProcessSet, global_process_set
from tf_fasthvd._reduce_ops import Average, Min, ReduceOp

_LossScaleOptimizer = keras.optimizers.LossScaleOptimizer


class DistributedMixin:
    """What is put in front of an optimizer's own class.

    The reducer is an attribute of the class, not of the object: so an optimizer made from a
    configuration by this class (`from_config`) is distributed too, and the configuration itself
    stays the one of the plain optimizer.
    """

    fasthvd_reducer: ClassVar[_reduction.GradientReducer]

    @tf.autograph.experimental.do_not_convert
    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        """Combines the gradients, then applies them as the wrapped optimizer does."""
        grads = list(grads)
        if trainable_variables is None:
            variables = self._trainable_variables
        else:
            variables = trainable_variables = list(trainable_variables)
        _native.check_may_run()
        if len(grads) == len(variables):  # If not, the optimizer's own message tells.
            grads = self.fasthvd_reducer.reduce(grads, variables)
        return super().apply(grads, trainable_variables)

    def __reduce__(self) -> tuple[Any, ...]:
        """How to copy and pickle: Keras restores the plain optimizer; then it is distributed."""
        _, arguments = super().__reduce__()
        return _restore, (self.fasthvd_reducer, *arguments)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        restore, arguments = self.__reduce__()
        memo[id(self)] = restored = restore(*arguments)
        return restored


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: keras.optimizers.Optimizer,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> keras.optimizers.Optimizer:
    """Makes a Keras 3 optimizer combine the gradients of all ranks before it applies them.

    The optimizer is changed in place and returned. It stays an instance of its own class, with
    all its settings and state, and is saved as a plain one. If Keras's dtype policy is
    mixed_float16, it is put into a `LossScaleOptimizer` first, as `model.compile` would do, and
    that is returned.

    Args:
        optimizer: The optimizer.
        name: Opens the names of the collectives; the default is made of the optimizer's class.
        use_locking: Not used; for scripts written for TensorFlow 1.
        device_dense: Not used: gradients stay where TensorFlow places them.
        device_sparse: Not used.
        compression: How to send gradients in fewer bytes; see `Compression`.
        sparse_as_dense: Makes no difference yet: sparse gradients are always made dense.
        backward_passes_per_step: Only 1 is supported; see the optimizer's own
            `gradient_accumulation_steps` for more.
        op: `Average` (the default) or `Sum`.
        gradient_predivide_factor: With `Average`, divides by this before the sum, and by the rest
            of the number of ranks after it.
        average_aggregated_gradients: Makes no difference with `backward_passes_per_step` 1.
        num_groups: Deprecated: use `groups`.
        groups: A number of groups of gradients, or lists of variables: the gradients of a group
            are combined as one.
        process_set: The ranks that take part; only all of them is supported yet.
        scale_local_gradients: Only of use with local variables, which are not supported yet.
    """
    _native.check_may_run()
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        kind = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
        raise NotImplementedError(
            f"DistributedOptimizer takes Keras 3 optimizers, not {kind}; use one of "
            "keras.optimizers, or DistributedGradientTape in a training loop of your own."
        )
    if isinstance(optimizer, DistributedMixin):
        raise ValueError("this optimizer is distributed already; wrap it only once.")
    if backward_passes_per_step != 1:
        raise NotImplementedError(
            "backward_passes_per_step is not supported yet; give the Keras optimizer "
            f"gradient_accumulation_steps={backward_passes_per_step} instead."
        )
    reducer = _reduction.make_reducer(
        name=name or f"Distributed{type(optimizer).__name__}",
        op=op,
        compression=compression,
        gradient_predivide_factor=gradient_predivide_factor,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
    )
    if keras.config.dtype_policy().name == "mixed_float16" and not isinstance(
        optimizer, _LossScaleOptimizer
    ):
        optimizer = _LossScaleOptimizer(optimizer, name="loss_scale_optimizer")
    return _distribute(optimizer, reducer)


def is_distributed(optimizer: Any) -> bool:
    """Whether the optimizer, or the one inside its loss scaling, is distributed."""
    if isinstance(optimizer, _LossScaleOptimizer) and is_distributed(optimizer.inner_optimizer):
        return True
    return isinstance(optimizer, DistributedMixin)


def _distribute(
    optimizer: keras.optimizers.Optimizer, reducer: _reduction.GradientReducer
) -> keras.optimizers.Optimizer:
    """Puts the mixin in front of the optimizer's class, under the same name."""
    plain = type(optimizer)
    distributed = type(
        plain.__name__,
        (DistributedMixin, plain),
        {
            "__module__": plain.__module__,
            "__qualname__": plain.__qualname__,
            "__doc__": plain.__doc__,
            "fasthvd_reducer": reducer,
        },
    )
    if plain in object_registration.GLOBAL_CUSTOM_NAMES:
        # Saved models refer to registered classes by these names.
        names = object_registration.GLOBAL_CUSTOM_NAMES
        names[distributed] = names[plain]
    optimizer.__class__ = distributed
    return optimizer


def _restore(reducer: _reduction.GradientReducer, saved: io.BytesIO) -> keras.optimizers.Optimizer:
    return _distribute(keras.optimizers.Optimizer._unpickle_model(saved), reducer)


def _agree_on_finite_gradients() -> None:
    """Teaches loss scaling around a distributed optimizer to skip a step on all ranks or on none.

    `LossScaleOptimizer` calls its inner optimizer only if this rank's gradients are finite, and a
    rank that skips would leave the others waiting in their allreduce.
    """
    check_locally = _LossScaleOptimizer.check_finite

    def check_finite(self: Any, grads: Sequence[Any]) -> tf.Tensor:
        finite = check_locally(self, grads)
        inner = self.inner_optimizer
        if isinstance(self, DistributedMixin) or not isinstance(inner, DistributedMixin):
            return finite
        (agreed,) = _native.allreduce(
            [tf.cast(finite, tf.uint8)],
            op=Min,
            name=f"{inner.fasthvd_reducer.name}/gradients_are_finite",
            ignore_name_scope=True,
        )
        return tf.cast(agreed, tf.bool)

    _LossScaleOptimizer.check_finite = check_finite


_agree_on_finite_gradients()
