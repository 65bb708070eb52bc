"""The version of this package."""

import importlib.metadata


def version() -> str:
    """The installed version, or "0+source" when run from a source tree that was not installed."""
    try:
        return importlib.metadata.version("tf_fasthvd")
    except importlib.metadata.PackageNotFoundError:
        return "0+source"
