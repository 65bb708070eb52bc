"""Benchmarks of tf_fasthvd against stock Horovod: `make benchmark`; flags: `run.sh --help`."""
