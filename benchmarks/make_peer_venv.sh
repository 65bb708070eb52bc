#!/usr/bin/env bash
# Makes .venv-horovod: TensorFlow 2.15 and stock Horovod 0.28.1 with Gloo and Open MPI, the peer that the
# benchmarks measure against. (0.28.1 does not compile against the TensorFlow that tf_fasthvd uses.)
# Safe to call again: a stamp tells whether the venv is up to date.
#
#   PEER_PYTHON   the Python to use (3.10 or 3.11); default: the first of python3.11, python3.10, python3
#   PEER_VENV     where to put it; default: .venv-horovod beside this folder
#   PEER_JOBS     compiler jobs; default: the number of cores
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="${PEER_VENV:-$(dirname "$here")/.venv-horovod}"
stamp="$venv/.stamp"
jobs="${PEER_JOBS:-$(nproc)}"

tensorflow="tensorflow-cpu==2.15.1"
horovod="horovod==0.28.1"
apt_packages=(cmake g++ openmpi-bin libopenmpi-dev)

say() { echo "make_peer_venv: $*" >&2; }
die() { say "error: $*"; exit 1; }

wanted="$tensorflow $horovod 1"  # raise the number when the recipe below changes
if [[ -f "$stamp" && "$(cat "$stamp")" == "$wanted" ]]; then
  exit 0
fi

install_system_packages() {
  local missing=()
  for package in "${apt_packages[@]}"; do
    # `grep -c` reads to the end: `grep -q` would close the pipe early, an error under pipefail.
    [[ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -c 'install ok')" == 1 ]] ||
      missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return
  [[ "$(id -u)" == 0 ]] ||
    die "system packages are missing; install them as root and run this again:" \
        "apt-get install ${missing[*]}"
  say "installing system packages: ${missing[*]}"
  apt-get update -q >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
}

find_python() {
  local candidate
  for candidate in ${PEER_PYTHON:-python3.11 python3.10 python3}; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 11))' \
        2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  die "TensorFlow 2.15 needs Python 3.10 or 3.11: name one with PEER_PYTHON"
}

install_system_packages
python="$(find_python)"

say "making $venv with $("$python" --version) (some minutes: Horovod is compiled)"
rm -rf "$venv"
"$python" -m venv "$venv"
pip=("$venv/bin/python" -m pip install -qq --disable-pip-version-check)
"${pip[@]}" "pip<25" wheel "setuptools<70"
"${pip[@]}" "$tensorflow" "numpy<2" "absl-py>=2.0" cloudpickle psutil pyyaml packaging cffi

log="$venv/horovod-build.log"
if ! HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 \
    HOROVOD_WITH_GLOO=1 HOROVOD_WITH_MPI=1 MAKEFLAGS="-j$jobs" CMAKE_BUILD_PARALLEL_LEVEL="$jobs" \
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-build-isolation \
    --no-cache-dir --no-binary horovod -v "$horovod" >"$log" 2>&1; then
  tail -n 30 "$log" >&2
  die "Horovod did not build; the whole log: $log"
fi

export TF_CPP_MIN_LOG_LEVEL=2
"$venv/bin/horovodrun" --check-build >&2
"$venv/bin/python" - <<'PY' || die "Horovod was built without what the benchmarks compare with"
import sys
import horovod.tensorflow as hvd
sys.exit(not (hvd.gloo_built() and hvd.mpi_built()))
PY
echo "$wanted" >"$stamp"
say "done: $venv"
