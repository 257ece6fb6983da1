"""The smallest run: a tiny ViT on a few shapes, in fp32."""

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
