#!/usr/bin/env bash
# The tests with the oldest and the newest libraries that pyproject.toml admits, and on each Python, in environments of
# their own below .versions/ (6 GB each; they are kept and used again until pyproject.toml changes).
#
#   bash scripts/test_versions.sh                        all sets, with a line for each at the end
#   bash scripts/test_versions.sh oldest newest-3.12     some of them
#   bash scripts/test_versions.sh --install torch-2.11   without the tests
#   PATH=/opt/python3.12/bin:$PATH bash …                python3.11, python3.12 and python3.13 are looked for in PATH
#   PYTEST_ADDOPTS="tests/models -x" bash scripts/test_versions.sh torch-2.11
set -uo pipefail
cd "$(dirname "$0")/.."
all="oldest torch-2.11 newest newest-3.12 newest-3.13"
[ "${1:-}" != --help ] || { sed -n '2,10s/^# \?//p' "$0"; echo "sets: $all"; exit; }

only_install=
[ "${1:-}" != --install ] || { only_install=1; shift; }

constraints() {  # the versions that a set asks for; pip takes the newest of all others
  case $1 in
    oldest) .versions/oldest/bin/python - <<'PYTHON'
import re, tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for requirement in [*project["dependencies"], *extras["export"], *extras["hub"]]:
    if bound := re.match(r"([\w-]+)(\[\w+\])?>=([\d.]+)", requirement):
        print(f"{bound[1]}=={bound[3]}")
PYTHON
    ;;
    torch-2.11) printf '%s\n' 'torch==2.11.*' 'torchvision==0.26.*' 'torchaudio==2.11.0' ;;
  esac
}

install() {
  local environment=.versions/$1 version=3.11
  case $1 in newest-*) version=${1#newest-} ;; esac
  if [ ! -e "$environment/.installed" ] || [ pyproject.toml -nt "$environment/.installed" ]; then
    echo "installing $environment"
    "python$version" -m venv --clear "$environment" && constraints "$1" > "$environment/constraints.txt" &&
      "$environment/bin/python" -m pip install -qq --disable-pip-version-check -c "$environment/constraints.txt" \
        -e '.[test]' && touch "$environment/.installed"
  fi
}

results=() status=0
for name in ${*:-$all}; do
  case " $all " in *" $name "*) ;; *) echo "$name is none of: $all" >&2; exit 2 ;; esac
  if ! install "$name"; then
    results+=("$name: could not be installed") status=1
    continue
  fi
  [ -z "$only_install" ] || continue
  python=.versions/$name/bin/python
  warnings=()  # what old libraries say of each other is not about this package
  [ "$name" != oldest ] || warnings=(-W ignore::DeprecationWarning)
  "$python" -m pytest -n auto "${warnings[@]}" | tee ".versions/$name.log" || status=1
  results+=("$name: $(tail -1 ".versions/$name.log") | $("$python" - <<'PYTHON'
import platform
from importlib.metadata import version

names = "torch torchvision torchaudio lightning jsonargparse numpy pillow timm onnx".split()
print(f"Python {platform.python_version()},", ", ".join(f"{name} {version(name)}" for name in names))
PYTHON
)")
done
[ "${#results[@]}" = 0 ] || printf '%s\n' "" "${results[@]}"
exit $status
