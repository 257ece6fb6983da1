"""The smallest runs, in fp32: a tiny ViT on a few shapes, and a tiny recogniser of a few synthesised words."""

from pathlib import Path

ROOT = Path(__file__).parent.parent

TINY = [
    "--config=" + str(ROOT / "configs/shapes/vit.yaml"),
    "--data.init_args.count=250",
    "--data.init_args.batch=50",
    "--model.network.init_args.width=16",
    "--model.network.init_args.depth=2",
    "--trainer.max_epochs=2",
    "--trainer.precision=32-true",
    "--trainer.enable_progress_bar=false",
]

TINY_SPEECH = [
    "--config=" + str(ROOT / "configs/spoken_words/truncated.yaml"),
    "--data.init_args.count=100",
    "--data.init_args.batch=30",
    "--model.network.init_args.tokens.init_args.width=16",
    "--model.network.init_args.depth=2",
    "--trainer.max_epochs=2",
    "--trainer.precision=32-true",
    "--trainer.enable_progress_bar=false",
]
