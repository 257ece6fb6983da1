"""Networks of timm as graphs, for any size of batch."""

import pytest
import torch

from vitspeech import TimmModel
from vitspeech.checkpoint.model import Model
from vitspeech.export import export
from vitspeech.export.session import session

PREPROCESSING = {"image": 32, "mean": [0.5, 0.4, 0.3], "std": [0.25, 0.3, 0.2]}


@pytest.mark.parametrize(
    "name, options", [("test_resnet", {}), ("vit_tiny_patch16_224", {"depth": 2, "embed_dim": 24, "num_heads": 2})]
)
def test_probabilities(name, options, tmp_path):
    torch.manual_seed(1)
    network = TimmModel(4, name, options, image=32).eval()
    export(Model(network, list("abcd"), PREPROCESSING, {}, {}), tmp_path / "exported")
    running = session((tmp_path / "exported" / "model.onnx").read_bytes())
    mean, std = (torch.tensor(PREPROCESSING[key])[:, None, None] for key in ("mean", "std"))
    for batch in (1, 3):
        pixels = torch.randint(256, (batch, 32, 32, 3)).to(torch.uint8)
        with torch.inference_mode():
            expected = network((pixels.movedim(3, 1) / 255 - mean) / std).softmax(-1)
        computed = torch.from_numpy(running.run(None, {"pixels": pixels.numpy()})[0])
        torch.testing.assert_close(computed, expected, atol=1e-6, rtol=1e-5)
