"""The callbacks, for scripts that import them from here; see `tf_fasthvd.callbacks`."""

from tf_fasthvd.callbacks import *  # noqa: F403
from tf_fasthvd.callbacks import __all__ as __all__
