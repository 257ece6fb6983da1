#!/usr/bin/env bash
# Makes .venv with the package in it; quick and quiet when it is there and pyproject.toml has not changed.
# Sourced by quickstart.sh and test.sh: the argument names the extra to install, for example `test`.
set -euo pipefail
python=${PYTHON:-python3.11}
command -v "$python" >/dev/null || python=python3
stamp=.venv/.installed${1:+-$1}
if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON")'
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  echo "installing vitspeech into .venv (torch is large: a few minutes the first time)"
  .venv/bin/python -m pip install -qq --disable-pip-version-check -e ".${1:+[$1]}"
  touch "$stamp"
fi
