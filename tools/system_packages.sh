#!/bin/bash
# Sees to it that the Debian packages for a job are there: tools/system_packages.sh build|test|benchmark
# Installs what is missing when run as root; says how to install it otherwise.
set -euo pipefail

python=${PYTHON:-python3}

# Prints the name of each package of which something is missing.
missing_packages() {
  need build-essential command -v g++
  need bazel-bootstrap command -v bazel
  need python3-venv "$python" -c 'import ensurepip, venv'
  case $1 in
    test)
      need libgtest-dev test -f /usr/src/googletest/googletest/src/gtest-all.cc
      need openmpi-bin command -v mpirun
      ;;
    benchmark)
      need cmake command -v cmake
      need libopenmpi-dev command -v mpicxx
      need openmpi-bin command -v mpirun
      need python3-dev "$python" -c \
        'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")'
      ;;
  esac
}

# need PACKAGE COMMAND...: names the package if the command fails.
need() {
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || echo "$package"
}

job=${1:-build}
missing=$(missing_packages "$job" | xargs)
[[ -z $missing ]] && exit 0

install="apt-get update && apt-get install -y --no-install-recommends $missing"
if ! command -v apt-get >/dev/null; then
  echo "These Debian packages, or what is like them on this system, are missing: $missing" >&2
  exit 1
fi
if [[ $(id -u) != 0 ]]; then
  echo "System packages are missing. Install them, then try again:" >&2
  echo "    sudo sh -c '$install'" >&2
  exit 1
fi

echo "Installing system packages: $missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! sh -c "$install" </dev/null >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "The system packages could not be installed with: $install" >&2
  exit 1
fi

missing=$(missing_packages "$job" | xargs)
if [[ -n $missing ]]; then
  echo "Still missing after their installation: $missing (is another \"$python\" or PATH in use?)" >&2
  exit 1
fi
