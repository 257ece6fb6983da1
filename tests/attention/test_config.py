"""The settings of encoder and decoder: from dictionaries, one per block, and what is refused."""

import pytest
import yaml
from jsonargparse import ArgumentParser

from vitspeech.attention import Encoder, EncoderConfig
from vitspeech.tasks.task import Task


def test_a_dictionary_is_as_good_as_the_dataclass():
    config = {"depth": 3, "heads": 2, "left": [1, None, 4], "score": "cosine"}
    assert EncoderConfig.of(config) == EncoderConfig(**config)
    ours, theirs = Encoder(12, config).state_dict(), Encoder(12, EncoderConfig(**config)).state_dict()
    assert {name: tensor.shape for name, tensor in ours.items()} == {name: x.shape for name, x in theirs.items()}


def test_each_block_has_its_own_contexts_and_drop_path():
    blocks = EncoderConfig(depth=3, left=[1, None, 4], right=2, drop_path=0.2).per_block()
    assert [(block.left, block.right) for block in blocks] == [(1, 2), (None, 2), (4, 2)]
    assert [block.drop_path for block in blocks] == pytest.approx([0, 0.1, 0.2])


@pytest.mark.parametrize("change", ["--model=vitspeech.tasks.Labeling", "--model.network.encoder.depth=3"])
def test_the_command_line_changes_task_or_depth_and_keeps_the_other_settings(change, tmp_path):
    network = {"class_path": "vitspeech.models.ViT", "init_args": {"width": 8, "encoder": {"depth": 1, "heads": 2}}}
    config = {"model": {"class_path": "vitspeech.tasks.Recognition", "init_args": {"network": network}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--config", action="config")
    parser.add_subclass_arguments(Task, "model")
    parsed = parser.parse_args([f"--config={tmp_path / 'config.yaml'}", change])
    encoder = parsed.model.init_args.network.init_args.encoder.init_args
    assert (encoder.depth, encoder.heads) == (3 if "depth" in change else 1, 2)
    assert "class_path" not in encoder
