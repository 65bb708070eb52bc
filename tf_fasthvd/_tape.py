"""`DistributedGradientTape`: a tape whose gradients are combined over all ranks."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from tf_fasthvd import _native, _reduction
from tf_fasthvd._compression import Compression, Compressor
from tf_fasthvd._process_sets import ProcessSet, global_process_set
from tf_fasthvd._reduce_ops import Average, ReduceOp


class _DistributedTape(tf.GradientTape):
    """What the class of a distributed tape derives from first."""

    fasthvd_reducer: ClassVar[_reduction.GradientReducer]

    @tf.autograph.experimental.do_not_convert
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: tf.UnconnectedGradients = tf.UnconnectedGradients.NONE,
        use_generic_names: bool = False,
    ) -> Any:
        """The gradients of `target`, combined over all ranks, in the structure of `sources`.

        Args:
            target: See `tf.GradientTape.gradient`.
            sources: See `tf.GradientTape.gradient`.
            output_gradients: See `tf.GradientTape.gradient`.
            unconnected_gradients: See `tf.GradientTape.gradient`.
            use_generic_names: Makes no difference: names depend on the program alone.
        """
        _native.check_may_run()
        gradients = super().gradient(target, sources, output_gradients, unconnected_gradients)
        flat_sources = tf.nest.flatten(sources)
        reduced = self.fasthvd_reducer.reduce(tf.nest.flatten(gradients), flat_sources)
        return tf.nest.pack_sequence_as(sources, reduced)


def DistributedGradientTape(  # noqa: N802 (Horovod's name)
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> tf.GradientTape:
    """Makes a tape combine gradients over all ranks; the tape is changed in place and returned.

    See `DistributedOptimizer` for the arguments.
    """
    _native.check_may_run()
    if isinstance(gradtape, _DistributedTape):
        raise ValueError("this tape is distributed already; wrap it only once.")
    reducer = _reduction.make_reducer(
        name="DistributedGradientTape",
        op=op,
        compression=compression,
        gradient_predivide_factor=gradient_predivide_factor,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
    )
    plain = type(gradtape)
    bases = (_DistributedTape,) if plain is tf.GradientTape else (_DistributedTape, plain)
    gradtape.__class__ = type(plain.__name__, bases, {"fasthvd_reducer": reducer})
    return gradtape
