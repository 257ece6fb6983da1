#!/usr/bin/env bash
# Linters, the documentation site and the tests on all cores, in .venv, which is made if it is missing; arguments go to
# pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/install.sh test,docs
.venv/bin/ruff check -q .
.venv/bin/ruff format -q --check .
# With --quiet, --strict would not see the warnings.
NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict -d "$(mktemp -d)" 2>&1 | { grep -v ^INFO || true; }
exec .venv/bin/python -m pytest -n auto "$@"
