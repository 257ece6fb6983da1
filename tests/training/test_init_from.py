"""`--init_from`: weights of another model by name, and what is refused."""

import json
import os
import re
import shutil

import pytest
import torch
import yaml
from running import weights
from tiny import TINY, TINY_SPEECH

import vitspeech
from vitspeech.checkpoint.leakage import add_training_items, check_test_items
from vitspeech.checkpoint.transfer import transfer
from vitspeech.errors import InputError
from vitspeech.tasks import Classification
from vitspeech.training.run_folder import check_learned_from, model_name
from vitspeech.training.train import TrainingCLI, train

SHORT = ["--trainer.max_epochs=1", "--data.init_args.words=[go, tree, stop]"]
STILL = [*SHORT, "--model.optimizer={class_path: torch.optim.SGD, init_args: {lr: 0.0}}"]


def refusal(arguments, tmp_path) -> str:
    with pytest.raises(InputError) as caught:
        TrainingCLI([*arguments, f"--run={tmp_path / 'refused'}"]).train()
    assert not (tmp_path / "refused").exists()
    return str(caught.value)


def test_encoder_statistics_and_rows_of_known_labels_are_taken(finished_speech_run, tmp_path, capsys):
    run = tmp_path / "run"
    TrainingCLI([*TINY_SPEECH, *STILL, f"--init_from={finished_speech_run}", f"--run={run}"]).train()
    theirs, ours = weights(finished_speech_run), weights(run)
    for name, tensor in ours.items():  # the learning rate is 0
        if not name.startswith("head.") and "running" not in name and "num_batches" not in name:
            assert torch.equal(tensor, theirs[name]), name
    labels = vitspeech.load(finished_speech_run).labels
    assert vitspeech.load(run).labels == ["go", "tree", "stop", "unknown", "silence"] and "go" in labels
    for row, label in enumerate(["go", "tree", "stop", "unknown", "silence"]):
        if label in labels:
            assert torch.equal(ours["head.bias"][row], theirs["head.bias"][labels.index(label)])
            assert torch.equal(ours["head.weight"][row], theirs["head.weight"][labels.index(label)])
        else:
            assert not (ours["head.weight"][row] == theirs["head.weight"]).all(1).any()
    printed = capsys.readouterr().out
    assert f"starts from {finished_speech_run}/model: " in printed
    assert "rows of the head: loaded go, stop, unknown, silence; new tree\n" in printed
    record = json.loads((run / "init_from.json").read_text())
    assert "tokens.log_mel.mean" in record["taken"] and record["new_labels"] == ["tree"] and "weights" not in record
    assert yaml.safe_load((run / "config.yaml").read_text())["init_from"] == str(finished_speech_run)
    card = vitspeech.load(run).card
    assert card["starts_from"] == "tiny-speech"
    assert card["starts_from_sha256"] == vitspeech.load(finished_speech_run).card["sha256"]


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("checkpoints/flowers", "flowers"),
        ("runs/flowers/0", "flowers"),
        ("runs/flowers/0/model", "flowers"),
        ("runs/flowers/model/", "flowers"),
        ("hf-hub:me/flowers@v1", "hf-hub:me/flowers@v1"),
    ],
)
def test_a_card_names_a_model_by_its_folder(folder, name):
    assert model_name(folder) == name


def test_what_is_missing_of_another_shape_or_left_is_told(finished_speech_run):
    model = vitspeech.load(finished_speech_run)
    tokens = vitspeech.SpeechFrontend(16, mels=40, stem="convolutional")
    other = vitspeech.SpeechClassifier(6, tokens, vitspeech.EncoderConfig(depth=3, heads=4, mlp_ratio=1))
    own = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    found = transfer(model, other, list("abcdef"), {"sample_rate_hz": 16_000})
    assert all(torch.equal(tensor, own[name]) for name, tensor in other.state_dict().items())  # it stays as it is
    deeper = {name for name in own if name.startswith("encoder.blocks.2.")}
    assert set(found.missing) == deeper | (own.keys() - model.network.state_dict().keys() - deeper)
    assert deeper and found.other_shapes and all(", here (" in text for text in found.other_shapes)
    assert len(found.report().splitlines()) <= 6 and max(map(len, found.report().splitlines())) < 400
    assert found.labels == [] and torch.equal(found.weights["head.weight"], own["head.weight"])


def test_an_encoder_decoder_takes_the_head_over_tokens_as_that_of_ctc(
    finished_recognizer_run, finished_transcriber_run
):
    model, network = vitspeech.load(finished_recognizer_run), vitspeech.load(finished_transcriber_run).network
    found = transfer(model, network, model.labels, model.preprocessing)
    theirs = model.network.state_dict()
    assert torch.equal(found.weights["ctc_head.weight"], theirs["head.weight"])
    assert torch.equal(found.weights["ctc_head.bias"], theirs["head.bias"])
    assert {"head.weight", "head.bias"} <= set(found.missing) and not found.unused


def test_a_recognizer_takes_the_head_of_ctc_and_leaves_that_of_the_decoder(
    finished_recognizer_run, finished_transcriber_run
):
    model, network = vitspeech.load(finished_transcriber_run), vitspeech.load(finished_recognizer_run).network
    found = transfer(model, network, model.labels, model.preprocessing)
    assert torch.equal(found.weights["head.weight"], model.network.state_dict()["ctc_head.weight"])
    assert not found.missing and {"decoder_head.weight", "decoder_head.bias"} <= set(found.unused)


def test_a_config_names_the_folder_relative_to_itself_and_the_last_one_counts(finished_speech_run, tmp_path, capsys):
    shutil.copytree(finished_speech_run / "model", tmp_path / "models" / "first")
    config = tmp_path / "mine.yaml"
    config.write_text("extends: spoken_words/truncated\ninit_from: models/first\n")
    arguments = [*TINY_SPEECH, f"--config={config}", *TINY_SPEECH[1:], *SHORT, f"--run={tmp_path / 'run'}"]
    TrainingCLI(arguments).train()
    assert f"starts from {tmp_path}/models/first: " in capsys.readouterr().out
    config.write_text("init_from: [1]\n")
    assert refusal(arguments, tmp_path) == f"{config}: init_from: [1] is not the path of a folder"
    config.write_text("init_from: models/missing\n")
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/other: missing"):
        train([*arguments, f"--init_from={tmp_path}/other"])


def test_a_resumed_run_does_not_read_the_model_again(finished_speech_run, tmp_path, monkeypatch):
    source, run = tmp_path / "source", tmp_path / "run"
    shutil.copytree(finished_speech_run / "model", source)
    arguments = [*TINY_SPEECH, *SHORT, "--trainer.max_epochs=2", f"--init_from={source}"]
    TrainingCLI([*arguments, f"--run={tmp_path / 'whole'}"]).train()
    healthy = Classification.loss

    def breaks(task, batch):
        if task.training and task.current_epoch == 1:
            raise RuntimeError("the power is gone")
        return healthy(task, batch)

    monkeypatch.setattr(Classification, "loss", breaks)
    with pytest.raises(RuntimeError, match="the power is gone"):
        TrainingCLI([*arguments, f"--run={run}"]).train()
    monkeypatch.setattr(Classification, "loss", healthy)
    os.rename(source, tmp_path / "gone")
    TrainingCLI([f"--resume={run}"]).train()
    with pytest.raises(InputError, match=f"init_from=other: {run} started from {source}; leave it out"):
        TrainingCLI([f"--resume={run}", "--init_from=other"])
    assert (run / "init_from.json").exists()
    for name, tensor in weights(tmp_path / "whole").items():
        assert torch.equal(tensor, weights(run)[name]), name


def test_a_run_goes_on_with_the_start_that_it_began_with(tmp_path):
    sums = {"starts_from_sha256": "0" * 64}
    check_learned_from(tmp_path, sums)  # without run.json
    (tmp_path / "run.json").write_text(json.dumps({"commit": "x"} | sums))
    check_learned_from(tmp_path, sums)
    check_learned_from(tmp_path, {})
    with pytest.raises(InputError, match="the model that it starts from has other weights than when the run began"):
        check_learned_from(tmp_path, {"starts_from_sha256": "1" * 64})


def test_a_model_without_common_weights_is_refused(finished_run, finished_speech_run, tmp_path):
    message = refusal([*TINY_SPEECH, f"--init_from={finished_run}"], tmp_path)
    assert message == f"init_from {finished_run}/model: a model of images, but the data has audio"
    wide = ["--model.network.init_args.tokens.init_args.width=24"]
    message = refusal([*TINY_SPEECH, *wide, f"--init_from={finished_speech_run}"], tmp_path)
    assert "shares no weights with the config's network; other shapes" in message and ", here (" in message


def test_positions_are_interpolated_for_images_of_another_size(finished_run):
    model = vitspeech.load(finished_run)
    torch.nn.init.ones_(model.network.positions.table[:, 0])
    arguments = model.config["init_args"] | {"image": 48}
    network = vitspeech.ViT(**arguments)
    found = transfer(model, network, model.labels, model.preprocessing)
    assert found.interpolated == ["positions.table (64, 16), here (144, 16)"] and not found.other_shapes
    assert found.numbers[0] == found.numbers[1] and "interpolated" in found.report()
    table = found.weights["positions.table"]
    torch.testing.assert_close(table[:, 0], torch.ones(144))
    torch.testing.assert_close(table.mean(0), model.network.positions.table.mean(0), atol=0.01, rtol=0)


def test_taking_below_a_tenth_is_refused_unless_told(finished_run, tmp_path):
    deep = [*TINY, "--model.network.init_args.encoder.depth=60", f"--init_from={finished_run}"]
    message = refusal(deep, tmp_path)
    assert "it is a" not in message  # of what it is not unlike
    assert "init_from_least=5.0 " in refusal([*deep, "--init_from_least=5"], tmp_path)
    told = re.fullmatch(r".*shares only .* go on with (--init_from_least) (0\.0[0-9]+)", message)
    TrainingCLI(
        [*deep, "=".join(told.groups()), "--trainer.max_epochs=1", "--data.count=50", f"--run={tmp_path / 'run'}"]
    ).train()
    assert yaml.safe_load((tmp_path / "run/config.yaml").read_text())["init_from_least"] < 0.1


@pytest.mark.parametrize("option, has", [("mels=48", "48 mel bins"), ("hop_ms=12.5", "every 12.5 ms")])
def test_another_front_end_is_refused(finished_speech_run, tmp_path, option, has):
    option = f"--model.network.init_args.tokens.init_args.{option}"
    message = refusal([*TINY_SPEECH, option, f"--init_from={finished_speech_run}"], tmp_path)
    assert "its front end has 40 mel bins from" in message and has in message and "\n" not in message


def test_another_sample_rate_is_refused(finished_speech_run):
    model = vitspeech.load(finished_speech_run)
    with pytest.raises(InputError, match="takes audio of 16000 Hz, the data has audio of 8000 Hz"):
        transfer(model, model.network, model.labels, {"sample_rate_hz": 8000})


def test_a_run_lists_what_the_model_that_it_starts_from_was_trained_on(finished_run, tmp_path):
    source, run = tmp_path / "source", tmp_path / "run"
    shutil.copytree(finished_run, source)
    add_training_items(["test/ape/0.png"], source)
    TrainingCLI([*TINY, "--trainer.max_epochs=1", f"--init_from={source}", f"--run={run}"]).train()
    with pytest.raises(InputError, match=r"run: was trained on 1 of the 1 test items .*, first test/ape/0\.png"):
        check_test_items({"test": ["test/ape/0.png"]}, {}, run)
