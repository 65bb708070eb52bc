#!/usr/bin/env bash
# Runs the allreduce benchmark: tf_fasthvd (from .venv, which `make benchmark` prepares) against stock
# Horovod (from .venv-horovod, made here when missing). All flags go to the driver; --help tells them.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=.venv/bin/python
if [[ ! -x "$python" ]]; then
  echo "benchmarks/run.sh: $PWD/.venv is missing: run \`make benchmark\`, which makes it" >&2
  exit 1
fi
exec "$python" -m benchmarks.driver "$@"
