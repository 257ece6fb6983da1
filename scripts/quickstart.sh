#!/usr/bin/env bash
# From nothing to two trained models: a small ViT and a small CNN on the embedded shapes, evaluated, and a picture
# classified with each. Needs Python 3.11 and, the first time, the package index.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/install.sh
out=runs/quickstart
rm -rf "$out"
mkdir -p "$out"
.venv/bin/python -c "import sys, vitspeech.data.shapes as s; s.save_example(sys.argv[1])" "$out/star.png"
for network in vit cnn; do
  echo
  echo "== $network: train =="
  .venv/bin/python scripts/train.py --config "configs/shapes/$network.yaml" --run "$out/$network"
  echo "== $network: evaluate, predict =="
  .venv/bin/python scripts/evaluate.py "$out/$network"
  .venv/bin/python scripts/predict.py "$out/$network" "$out/star.png"
done
echo
echo "Everything is under $out: for each network config.yaml, metrics.csv, learning_curves.png, confusion_matrix.png"
echo "and model/ (weights, configuration, card), which predict.py and vitspeech.load take."
