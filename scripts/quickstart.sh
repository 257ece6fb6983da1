#!/usr/bin/env bash
# Trains three small models without a data set: a ViT and a CNN on generated shapes, and a keyword spotter on synthesized
# words. Evaluates each, runs it on a file, and the last one on a stream. Needs Python 3.11 or newer and, the first time,
# the package index.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/install.sh spoken
out=runs/quickstart
rm -rf "$out"
mkdir -p "$out"
python=.venv/bin/python
vitspeech=.venv/bin/vitspeech
$python -c "import sys, vitspeech.data.images.shapes as s; s.save_example(sys.argv[1])" "$out/star.png"
$python -c "import sys, vitspeech.data.clips.spoken_words as s; s.save_example(sys.argv[1], ['left'])" "$out/left.wav"
$python -c "import sys, vitspeech.data.clips.spoken_words as s; s.save_example(sys.argv[1])" "$out/left-stop-go.wav"
for experiment in shapes/vit shapes/cnn spoken_words/truncated; do
  run=$out/$(basename $experiment)
  echo
  echo "== $experiment: train =="
  $vitspeech train --config "$experiment" --run "$run"
  echo "== $experiment: evaluate, predict =="
  $vitspeech evaluate "$run"
  case $experiment in
    shapes/*) $vitspeech predict "$run" "$out/star.png" ;;
    *) $vitspeech predict "$run" "$out/left.wav" --attention "$out/attention.png"
       echo "== $experiment: stream left, stop, go =="
       $vitspeech stream "$run" "$out/left-stop-go.wav" ;;
  esac
done
echo
echo "Everything is under $out. Each run has config.yaml, metrics.csv, learning_curves.png, confusion_matrix.png and model/"
echo "(weights, configuration, card), which vitspeech predict, vitspeech stream and vitspeech.load take."
