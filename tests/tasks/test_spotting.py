"""Training on rows of clips: the logits of a clip are those that a stream averages."""

from types import SimpleNamespace

import numpy
import pytest
import soundfile
import torch
from torch.nn import functional as F

import vitspeech
from vitspeech.data.keywords.module import Keywords
from vitspeech.errors import InputError
from vitspeech.tasks import Spotting, spotting
from vitspeech.tasks.optimizer import parameter_groups

SAMPLES = 8000


def network(frontend=None, **encoder):
    tokens = vitspeech.SpeechFrontend(width=16, mels=20, stem="convolutional", stride=4, **(frontend or {}))
    torch.manual_seed(0)
    return vitspeech.SpeechClassifier(4, tokens, vitspeech.EncoderConfig(**{"depth": 2, "heads": 2} | encoder)).eval()


def task(net, **arguments):
    made = Spotting(net, **arguments)
    made.labels = ["go", "stop", "unknown", "silence"]
    return made


@pytest.fixture
def clips():
    return 0.1 * torch.randn(8, SAMPLES, generator=torch.Generator().manual_seed(1))


def test_one_clip_a_row_is_classification(clips):
    net = network(left=4, right=2)
    torch.testing.assert_close(task(net, clips_per_row=1).clip_logits(clips), net(clips))


def test_a_clip_is_the_mean_of_its_tokens_in_the_stream(clips):
    net = network(left=4, right=2)
    found = task(net, clips_per_row=4).clip_logits(clips)
    stream = vitspeech.stream(net)
    logits = torch.cat((stream.push(clips[4:].flatten()), stream.flush()))
    window, hop = net.tokens.window_samples, net.tokens.hop_samples
    for row in range(4):
        start = row * SAMPLES
        inside = [i for i in range(len(logits)) if i * hop >= start and i * hop + window <= start + SAMPLES]
        torch.testing.assert_close(found[4 + row], logits[inside].mean(0), rtol=1e-4, atol=1e-5)


def test_another_pooling_which_would_not_be_trained_is_refused():
    tokens = vitspeech.SpeechFrontend(width=16, mels=20)
    net = vitspeech.SpeechClassifier(4, tokens, {"depth": 1, "heads": 2}, pooling="self_attentive")
    with pytest.raises(InputError, match=r"SelfAttentivePooling .* only mean pooling"):
        Spotting(net)


def test_what_training_computes_is_compiled(clips, monkeypatch):
    calls = []
    monkeypatch.setattr(torch, "compile", lambda function: calls.append(function) or function)
    net = network(left=4, right=2)
    spotting = task(net, compile=True)
    assert spotting.clip_logits(clips).equal(spotting.clip_logits(clips)) and calls == [net.forward_frames]
    task(net).clip_logits(clips)
    assert len(calls) == 1


def test_the_clips_before_matter_within_a_row_and_not_across_rows(clips):
    spotting = task(network(left=4, right=0), clips_per_row=2)
    changed = clips.clone()
    changed[2] = 0
    differs = (spotting.clip_logits(clips) != spotting.clip_logits(changed)).any(1)
    assert differs.tolist() == [False, False, True, True, False, False, False, False]


def test_rejection_weighs_whether_there_is_a_keyword(clips):
    net, labels = network(), torch.tensor([0, 1, 2, 3, 0, 2, 2, 1])
    plain, weighed = task(net).loss((clips, labels)), task(net, rejection=3).loss((clips, labels))
    probabilities = task(net).clip_logits(clips).softmax(-1)
    keyword = probabilities[:, :2].sum(1)
    question = F.binary_cross_entropy(keyword, (labels < 2).float())
    torch.testing.assert_close(weighed, plain + 2 * question)


def test_a_batch_that_rows_do_not_divide_has_shorter_rows(clips):
    assert task(network(), clips_per_row=4).clip_logits(clips[:6]).shape == (6, 4)
    assert task(network(), clips_per_row=4).clip_logits(clips[:3]).shape == (3, 4)


def test_rejection_needs_the_labels_unknown_and_silence(clips):
    labels = SimpleNamespace(labels=["yes", "no", "up", "down"])
    task(network()).bind_labels(labels)
    with pytest.raises(InputError, match="rejection=3: the last labels must be unknown and silence, not up, down"):
        task(network(), rejection=3).bind_labels(labels)
    task(network(), rejection=3).bind_labels(SimpleNamespace(labels=["yes", "no", "unknown", "silence"]))


def test_hard_negatives_are_found_on_the_device_of_the_network(monkeypatch):
    net, heard = network(), []

    def forward_frames(sound):
        heard.append((sound.device.type, net.training))
        return SimpleNamespace(cpu=lambda: "logits on the host")

    def mine(data, network, epoch):
        heard.append((network(torch.zeros(2, SAMPLES)), epoch))

    monkeypatch.setattr(net, "forward_frames", forward_frames)
    monkeypatch.setattr(Keywords, "mine", mine)
    training = task(net).to("meta").train()
    training.trainer = SimpleNamespace(datamodule=Keywords.__new__(Keywords), max_epochs=4, current_epoch=2)
    training.on_train_epoch_start()
    assert heard == [("meta", False), ("logits on the host", 2)] and net.training


def test_a_folder_that_is_gone_does_not_end_a_finished_training(monkeypatch, tmp_path):
    def gone(*_arguments, **_options):
        raise FileNotFoundError("speech: no such folder")

    monkeypatch.setattr(spotting, "load", gone)
    data = Keywords(recordings=None, root=str(tmp_path), words=["go"], synthesized=1)
    assert "speech: no such folder" in task(network()).remarks(tmp_path, data)[0]


def test_frozen_blocks_and_the_front_end_keep_their_weights_and_their_statistics(clips):
    net = network(left=4, right=2, drop_path=0.5)
    made = task(net, frozen_blocks=1).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    made.loss((clips, torch.arange(8) % 4)).backward()
    torch.optim.SGD(parameter_groups(net), lr=0.1).step()
    changed = {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    assert changed and all(name.startswith(("encoder.blocks.1.", "encoder.norm.", "head.")) for name in changed)
    trained = {name for name, parameter in net.named_parameters() if parameter.grad is not None}
    kept = ("tokens.", "encoder.blocks.0.")
    assert trained == {name for name, _ in net.named_parameters() if not name.startswith(kept)}
    assert net.encoder.blocks[1].training and not net.encoder.blocks[0].training and not net.tokens.training
    assert not made.eval().training


def test_a_frozen_front_end_still_masks_and_warps_what_training_hears(clips):
    net = network({"spec_augment": vitspeech.SpecAugment(mel_masks=1), "vocal_tract": 0.2})
    made = task(net, frozen_blocks=1).train()
    assert not torch.equal(net.tokens(clips), net.tokens(clips)) and net.tokens.vocal_tract.training
    made.eval()
    assert torch.equal(net.tokens(clips), net.tokens(clips)) and not net.tokens.vocal_tract.training


@pytest.mark.filterwarnings("ignore")  # of few recordings
def test_nothing_is_frozen_if_every_word_has_enough_recordings(tmp_path):
    for split, count in {"train": 3, "validation": 1, "test": 1}.items():
        for word, recordings in {"go": count, "stop": count + 1}.items():
            (tmp_path / split / word).mkdir(parents=True)
            for number in range(recordings):
                soundfile.write(tmp_path / split / word / f"{number}.wav", numpy.full(100, 0.1), 16_000)
    data, net = Keywords(["go", "stop"], root=str(tmp_path), synthesized=1), network()
    made = task(net, frozen_blocks=1).train()
    for enough, frozen in ((4, True), (3, False), (4, True)):
        made.enough = enough
        made.bind_labels(data)
        assert [net.tokens.training, net.encoder.blocks[0].training] == [not frozen] * 2
        assert all(parameter.requires_grad for parameter in net.parameters()) == (not frozen)


def test_more_frozen_blocks_than_there_are_are_refused():
    with pytest.raises(InputError, match=r"frozen_blocks=3"):
        Spotting(network(), frozen_blocks=3)
