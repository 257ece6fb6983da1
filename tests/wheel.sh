#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh environment, and uses it from an empty folder: train, evaluate, predict,
# stream. The dependencies are those of .venv (or of the environment of $PYTHON), so nothing large is installed again.
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$PWD
python=${PYTHON:-.venv/bin/python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH

echo "building the wheel"
mkdir "$folder/source"  # a copy, so that no leftover in build/ gets into the wheel
git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- --ignore-failed-read 2>/dev/null |
  tar --extract --directory "$folder/source"
"$python" -m pip wheel -q --no-deps -w "$folder" "$folder/source"

"$python" -m venv --without-pip "$folder/venv"
"$python" -m pip --python "$folder/venv/bin/python" install -q --no-deps "$folder"/vitspeech-*.whl
site() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
# A path file adds the folder of the dependencies, but does not read the path files in it: no editable install is seen.
site "$python" > "$(site "$folder/venv/bin/python")/dependencies.pth"

export PATH=$folder/venv/bin:$PATH
mkdir "$folder/empty"
cd "$folder/empty"
python - "$folder/venv" <<'PYTHON'
import sys
from importlib.resources import files
from pathlib import Path

import vitspeech

assert Path(vitspeech.__file__).is_relative_to(sys.argv[1]), vitspeech.__file__
package = files("vitspeech")
for name in (
    "py.typed configs/shapes/vit.yaml samples/LICENSES.md data/audio/vocabulary.txt "
    "data/utterances/manifests/SHA256SUMS receptive/report/report.html.jinja export/page/index.html "
    "checkpoints/speech-encoder/model.safetensors checkpoints/background/noise/pink_noise.opus"
).split():
    assert package.joinpath(name).is_file(), f"{name} is not in the wheel"
PYTHON
set -x
vitspeech --version
vitspeech configs | grep shapes/vit
vitspeech configs shapes/vit > mine.yaml
vitspeech samples
vitspeech train --config mine.yaml --config trainer/smoke --run run --data.count 250 --data.batch 50
vitspeech evaluate run
vitspeech predict run samples/cat.jpg samples/horse.jpg
vitspeech predict "$checkout/checkpoints/vit-cifar10" samples/cat.jpg | grep -F 'cat.jpg: cat '
vitspeech stream "$checkout/checkpoints/speech-commands-truncated" samples/left-right-go.wav
vitspeech transcribe "$checkout/checkpoints/spoken-words-ctc" samples/left-right-go.wav | grep -F 'left right go'
vitspeech train --config own_words --config trainer/smoke --run spotter --data.words '[lamp]' --data.synthesized 16 --data.least_clips 64
