#!/usr/bin/env bash
# The tests, in .venv, which is made if it is missing: `bash scripts/test.sh`; arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/install.sh test
.venv/bin/ruff check -q .
.venv/bin/ruff format -q --check .
exec .venv/bin/python -m pytest "$@"
