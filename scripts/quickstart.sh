#!/usr/bin/env bash
# From nothing to three trained models: a small ViT and a small CNN on the embedded shapes, and a small recognizer of
# synthesized words; each evaluated and tried on a file, the last on a stream, too. Needs Python 3.11 and, the first
# time, the package index.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/install.sh spoken
out=runs/quickstart
rm -rf "$out"
mkdir -p "$out"
python=.venv/bin/python
$python -c "import sys, vitspeech.data.images.shapes as s; s.save_example(sys.argv[1])" "$out/star.png"
$python -c "import sys, vitspeech.data.clips.spoken_words as s; s.save_example(sys.argv[1], ['left'])" "$out/left.wav"
$python -c "import sys, vitspeech.data.clips.spoken_words as s; s.save_example(sys.argv[1])" "$out/left-stop-go.wav"
for experiment in shapes/vit shapes/cnn spoken_words/truncated; do
  run=$out/$(basename $experiment)
  echo
  echo "== $experiment: train =="
  $python scripts/train.py --config "configs/$experiment.yaml" --run "$run"
  echo "== $experiment: evaluate, predict =="
  $python scripts/evaluate.py "$run"
  case $experiment in
    shapes/*) $python scripts/predict.py "$run" "$out/star.png" ;;
    *) $python scripts/predict.py "$run" "$out/left.wav" --attention "$out/attention.png"
       echo "== $experiment: stream left, stop, go =="
       $python scripts/stream.py "$run" "$out/left-stop-go.wav" ;;
  esac
done
echo
echo "Everything is under $out: for each network config.yaml, metrics.csv, learning_curves.png, confusion_matrix.png"
echo "and model/ (weights, configuration, card), which predict.py, stream.py and vitspeech.load take."
