#!/bin/bash
# Makes the virtual environment with the pinned requirements: tools/make_venv.sh FOLDER
set -euo pipefail

folder=$1
python=${PYTHON:-python3}

"$python" - <<'END'
import sys

if not (3, 11) <= sys.version_info < (3, 14):
    sys.exit(
        f"The pinned requirements need Python 3.11, 3.12 or 3.13; {sys.executable} is "
        f"{sys.version.split()[0]}. Name another one: make PYTHON=/path/to/python3 …"
    )
END

# The Makefile writes this stamp at the end. Without it the environment was left half made, and with
# another folder in it, it was moved or copied: its scripts would start the Python of the old place.
[[ $(cat "$folder/.ready" 2>/dev/null) == "$PWD" ]] || "$python" -m venv --clear "$folder"

pip=("$folder/bin/python" -m pip --disable-pip-version-check --quiet)
"${pip[@]}" install -r requirements-build.txt
# Horovod as pure Python. pip may have kept one that was compiled for something else: not from there.
HOROVOD_SKIP_COMPILE=1 HOROVOD_WITHOUT_PYTORCH=1 \
  "${pip[@]}" install --no-build-isolation --no-deps --no-cache-dir -c requirements.txt horovod
"${pip[@]}" install --no-deps -r requirements-dev.txt
