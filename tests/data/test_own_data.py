"""Data sets of your own: the examples in the docstrings of the base classes, saved as `mine.py`, named by a config and
trained on."""

import inspect
import re
import sys
import textwrap
from pathlib import Path

import lightning
import pytest
import torch
import yaml
from lightning.pytorch.cli import LightningCLI
from torch import nn
from torch.nn import functional as F

from vitspeech.data import DataModule, ImageData, UtteranceData, WaveformData
from vitspeech.training.config import restrict_imports


def spectra(waveforms):
    """Log magnitudes of frames of 400 samples: (B, N) -> (B, T, 201)."""
    return torch.fft.rfft(waveforms.unfold(1, 400, 200)).abs().clamp(min=1e-3).log()


class Classifier(lightning.LightningModule):
    """A linear classifier of pixels or of the mean spectrum."""

    def __init__(self, features: int, outputs: int = 2):
        super().__init__()
        self.linear, self.validation_losses = nn.Linear(features, outputs), []

    def forward(self, inputs):
        return self.linear(spectra(inputs).mean(1) if inputs.dim() == 2 else inputs.flatten(1))

    def training_step(self, batch):
        inputs, labels = batch
        return F.cross_entropy(self(inputs), labels)

    def validation_step(self, batch):
        self.validation_losses.append(self.training_step(batch).item())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.01)


class Recognizer(Classifier):
    """Linear CTC of single frames."""

    def __init__(self, features: int, outputs: int = 3):
        super().__init__(features, outputs)

    def forward(self, speech):
        return self.linear(spectra(speech.waveforms)).log_softmax(-1)

    def training_step(self, speech):
        logits = self(speech)
        frames = ((speech.lengths - 400) // 200 + 1).clamp(max=logits.shape[1])
        return F.ctc_loss(logits.transpose(0, 1), speech.units, frames, (speech.units >= 0).sum(1), blank=2)


def test_the_example_of_the_guide_has_the_same_items_whenever_it_is_read_and_others_in_each_split():
    guide = (Path(__file__).parents[2] / "docs/guides/data.md").read_text()
    names = {}
    exec(re.search(r"`mine\.py`:\n\n```python\n(.*?)```", guide, re.DOTALL)[1], names)
    data = names["Brightness"](batch=64)
    items = {split: data.read(split).inputs for split in ("train", "validation", "test")}
    assert all(torch.equal(inputs, data.read(split).inputs) for split, inputs in items.items())
    assert not torch.equal(items["validation"][:100], items["test"][:100])


def code_in(docstring):
    """The example of a docstring: what is indented below the line that ends with `::`."""
    lines = docstring.split("::\n", 1)[1].splitlines()
    code = []
    for line in lines:
        if line and not line.startswith(" "):
            break
        code.append(line)
    return textwrap.dedent("\n".join(code))


@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec", "ignore:.*does not have many workers")
@pytest.mark.parametrize(
    ("base", "name", "model", "features", "init_args"),
    [
        (ImageData, "Brightness", Classifier, 3 * 32 * 32, {"batch": 64}),
        (WaveformData, "Pitch", Classifier, 201, {"seconds": 0.5, "batch": 64, "augment": {"noise_prob": 0.0}}),
        (UtteranceData, "Tones", Recognizer, 201, {"batch": 16}),
    ],
)
def test_the_example_of_a_base_class_trains(tmp_path, monkeypatch, base, name, model, features, init_args):
    (tmp_path / "mine.py").write_text(code_in(inspect.getdoc(base)))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setattr(sys, "argv", ["train"])
    restrict_imports(["mine"])  # holds in the whole process once a run was trained in it
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"data": {"class_path": f"mine.{name}", "init_args": init_args}}))

    class CLI(LightningCLI):
        def add_arguments_to_parser(self, parser):
            parser.link_arguments("seed_everything", "data.init_args.seed", compute_fn=int)

    cli = CLI(
        model,
        DataModule,
        subclass_mode_data=True,
        save_config_callback=None,
        run=False,
        seed_everything_default=7,
        trainer_defaults={
            "max_epochs": 2,
            "accelerator": "cpu",
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "use_distributed_sampler": False,
            "log_every_n_steps": 1,
        },
        args=[f"--config={config}", f"--model.features={features}"],
    )
    data = cli.datamodule
    assert isinstance(data, base) and data.seed == 7 and data.batch == init_args["batch"] and len(data.labels) == 2
    cli.trainer.fit(cli.model, data)
    assert cli.model.validation_losses[-1] < 0.5 * cli.model.validation_losses[0]  # the first is from before training
