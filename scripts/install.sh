#!/usr/bin/env bash
# Makes .venv with the package in it; quick and quiet when it is there and pyproject.toml has not changed.
# quickstart.sh and test.sh call it; the argument names an extra to install with it, for example `test`.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.11}
[ -n "${PYTHON:-}" ] || command -v "$python" >/dev/null || python=python3
command -v "$python" >/dev/null || { echo "$python is not installed; set PYTHON to a Python 3.11 or newer" >&2; exit 1; }
stamp=.venv/.installed${1:+-$1}
if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON")'
  .venv/bin/python -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear .venv  # also after one that failed
  echo "installing vitspeech into .venv (torch is large: a few minutes the first time)"
  .venv/bin/python -m pip install -qq --disable-pip-version-check -e ".${1:+[$1]}"
  touch "$stamp"
fi
