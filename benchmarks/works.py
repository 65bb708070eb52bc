"""What the benchmark reduces: the works, by name.

Both sides read this file: the driver (as `benchmarks.works`) and the worker program, which runs in
either virtual environment (as `works`). It imports nothing but the standard library.
"""

from __future__ import annotations

import dataclasses
import math

KIB = 1024
MIB = 1024 * KIB
FLOAT32_BYTES = 4

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Work:
    """The float32 tensors that one call of a tf.function reduces.

    Attributes:
        name: What flags and results call it.
        label: What tables and plots call it.
        shapes: One shape a tensor; each tensor is an allreduce of its own.
    """

    name: str
    label: str
    shapes: tuple[Shape, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of all tensors on one rank."""
        return FLOAT32_BYTES * sum(math.prod(shape) for shape in self.shapes)


def _single(name: str, label: str, nbytes: int) -> Work:
    return Work(name, label, ((nbytes // FLOAT32_BYTES,),))


def _mixed_shapes() -> tuple[Shape, ...]:
    """The gradients of a ResNet-50 whose head has 4512 classes and no bias, in backward order.

    53 convolutions, the scale and the offset of as many batch normalisations, and one dense kernel:
    160 tensors from 256 bytes to 37 MB, 131 MB in all.
    """
    shapes: list[Shape] = []

    def convolution(size: int, inputs: int, outputs: int) -> None:
        shapes.extend([(size, size, inputs, outputs), (outputs,), (outputs,)])

    convolution(7, 3, 64)
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            if block == 0:
                convolution(1, channels, 4 * width)
            convolution(1, channels, width)
            convolution(3, width, width)
            convolution(1, width, 4 * width)
            channels = 4 * width
    shapes.append((channels, 4512))
    return tuple(reversed(shapes))


WORKS: dict[str, Work] = {
    work.name: work
    for work in (
        _single("4KiB", "4 KiB", 4 * KIB),
        _single("64KiB", "64 KiB", 64 * KIB),
        _single("1MiB", "1 MiB", MIB),
        _single("16MiB", "16 MiB", 16 * MIB),
        _single("64MiB", "64 MiB", 64 * MIB),
        Work("mixed", "160 tensors, 131 MB", _mixed_shapes()),
    )
}
