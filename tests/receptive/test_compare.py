"""Models side by side: what is measured, and what is named as missing while the rest is there.

Shapes: B inputs, F log-mel frames.
"""

from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from torch.testing import assert_close

from vitspeech import checkpoint
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier, SpeechCNN
from vitspeech.receptive import compare as comparison
from vitspeech.receptive import plan as planning
from vitspeech.receptive.compare import EXAMPLES, compare, logits_from_frames
from vitspeech.receptive.heads.relevance import at_head, rollout, token_relevance
from vitspeech.receptive.heads.weights import attention_weights
from vitspeech.receptive.plan import Cost, Plan, estimate_cost, plan_within
from vitspeech.receptive.sample import Sample, sample_for
from vitspeech.receptive.subjects import subject

PLAN = Plan(inputs=2, answers=4)


def quick(**changes):
    return Plan(**{"inputs": 2, "answers": 4, "factors": (1.0,)} | changes)


@pytest.fixture(scope="module")
def pictures(finished_run):
    """A tiny ViT at 32 px and at 33, which it can't take."""
    subjects = [subject(str(finished_run))]
    sample = sample_for(subjects, None, 4)
    return compare(subjects, sample, quick(factors=(1.0, 33 / 32)))[0], sample


@pytest.fixture
def speech(speech_compared):
    return speech_compared[0][0]


def of_timm(folder, timm_name, **options):
    """A network of timm as a released model of the embedded shapes."""
    config = {"class_path": "vitspeech.TimmModel"}
    config["init_args"] = {"classes": 10, "timm_name": timm_name, "options": options}
    data = {"class_path": "vitspeech.Shapes", "init_args": {"count": 250}}
    torch.manual_seed(5)
    labels = "circle ring square triangle star cross crescent heart bar semicircle".split()
    preprocessing = {"image": 32, "mean": [0.5] * 3, "std": [0.25] * 3}
    network = checkpoint.build(config).eval()
    checkpoint.save(checkpoint.Model(network, labels, preprocessing, {"data": data}, config), folder)
    return subject(str(folder))


def test_a_second_size_that_cannot_be_taken_is_named_and_the_rest_is_there(pictures):
    result, _ = pictures
    refused = "0 can't take images of 33 px: patch=4 does not divide image=33"
    assert result.missing == {"images of 33 px, trained": refused}
    assert [(state.trained, state.size) for state in result.states] == [(True, 32), (False, 32)]
    assert result.main is result.states[0] and result.untrained is result.states[1] and result.larger is None
    assert result.heads is not None and result.visible is not None and len(result.examples) == 3


def test_every_state_has_the_layers_of_the_network(pictures):
    result, _ = pictures
    names = ["patches.stages.0", "patches", "encoder.blocks.0", "encoder.blocks.1"]
    assert all([layer.name for layer in state.layers] == names for state in result.states)
    assert [layer.depth for layer in result.main.layers] == [0.25, 0.5, 0.75, 1]
    assert [layer.block is None for state in result.states for layer in state.layers] == [False] * 4 + [True] * 4
    trained, untrained = (state.layers[-1].cumulative["width"].value for state in result.states)
    assert trained != untrained
    assert result.parameters == sum(weight.numel() for weight in result.subject.model.network.parameters())


def test_of_a_deep_network_eight_layers_are_measured_unless_they_are_named():
    deep = subject("timm:vit_tiny_patch16_224", size=32)
    network, inputs = deep.network(trained=False), deep.inputs(raw(32).raw)
    names = [layer.name for layer in quick().layers_of(deep, network, inputs)]
    assert len(names) == 8 and names[0] == "blocks.0" and names[-1] == "blocks.11"
    named = [f"blocks.{number}" for number in range(12)]
    assert [layer.name for layer in quick(layers=named).layers_of(deep, network, inputs)] == named


def test_the_inputs_that_fit_into_a_time_are_in_proportion_to_it(finished_run, monkeypatch):
    subjects, plan = [subject(str(finished_run))], Plan(inputs=200, answers=500)
    sample = Sample(torch.zeros(500, 3, 32, 32, dtype=torch.uint8), None, None, None, "nothing")
    monkeypatch.setattr(planning, "estimate_cost", lambda *_: Cost([0.4, 0.5], 0.04))  # 200 s in all
    chosen = [plan_within(minutes, subjects, sample, plan) for minutes in (1, 2, 60)]
    assert [(each.inputs, each.answers) for each in chosen] == [(60, 150), (120, 300), (500, 500)]
    with pytest.raises(ValueError, match=r"two inputs take about 2 s"):
        plan_within(0.01, subjects, sample, plan)


def test_the_estimated_time_grows_with_the_size_and_has_no_passes_that_are_not_made(finished_run, pictures):
    _, sample = pictures
    cost = estimate_cost(subject(str(finished_run)), sample, quick(factors=(1.0, 2.0)))
    first, larger, untrained = cost.states
    assert first > untrained > 0 and larger == pytest.approx(4 * untrained) and cost.visible > 0
    assert estimate_cost(subject("timm:resnet10t", size=32), sample, quick()).visible == 0


def test_heads_are_measured_in_pixels_between_tokens(pictures):
    result, _ = pictures
    assert result.heads.layers == ["encoder.blocks.0.attention", "encoder.blocks.1.attention"]
    # Barely trained attention is near uniform: the mean distance of two of 8 × 8 places that are 4 px apart.
    places = 4 * torch.cartesian_prod(torch.arange(8.0), torch.arange(8.0))
    uniform = torch.cdist(places, places).mean()
    assert result.heads.distance == pytest.approx(uniform.expand(2, 2).numpy(), rel=0.15)


def test_examples_are_rollout_through_all_blocks_and_relevance_where_the_tokens_are(pictures):
    result, sample = pictures
    network, inputs = result.subject.model.network, result.subject.inputs(sample.first(EXAMPLES).raw)
    with torch.no_grad(), attention_weights(network) as weights:
        network(inputs)
    values = {"rollout": at_head(network, inputs, rollout(weights)[-1]), "relevance": token_relevance(network, inputs)}
    maps = {example.what: example.maps for example in result.examples}
    assert maps.keys() == {"field", *values}
    for what, tokens in values.items():
        relative = tokens / tokens.amax(1, keepdim=True)
        expected = relative.unflatten(1, (8, 8)).repeat_interleave(4, 1).repeat_interleave(4, 2)  # patches of 4 px
        assert_close(maps[what], expected)
        assert not torch.allclose(maps[what], expected.mT)


def test_the_whole_picture_has_the_models_own_accuracy(pictures):
    result, sample = pictures
    with torch.no_grad():
        answers = result.subject.model.network(result.subject.inputs(sample.raw)).argmax(1)
    assert result.visible.whole == (answers == sample.labels).double().mean() and result.visible.count == 4
    assert result.visible.radii == [0, 1.5, 3.5, 5.5, 7.5, 9.5, 11.5, 13.5, 15.5]


def test_speech_is_measured_in_milliseconds_and_at_a_longer_clip(speech):
    assert speech.missing == {}
    assert [(state.trained, state.size) for state in speech.states] == [(True, 1), (True, 1.5), (False, 1)]
    assert speech.larger is speech.states[1] and speech.untrained is speech.states[2]
    reach = [(30, 30), (30 + 8 * 40, 30 + 2 * 40), (30 + 16 * 40, 30 + 4 * 40)]
    assert all([layer.theoretical for layer in state.layers] == reach for state in speech.states)
    assert speech.heads.look_ahead.max() <= 80 and speech.heads.look_back.max() <= 320
    assert speech.visible.radii[:4] == [0, 2, 4, 6] and speech.visible.count == 5


def test_the_visible_window_of_speech_is_around_the_middle_of_the_word(finished_speech_run, monkeypatch):
    subjects = [subject(str(finished_speech_run))]
    sample = replace(sample_for(subjects, None, 3), middles=torch.tensor([0, 4000, 15_999]))
    measured = Mock()
    monkeypatch.setattr(comparison, "visible_accuracy", measured)
    network = subjects[0].model.network
    comparison.measure_visible_accuracy(subjects[0], network, sample, 1)
    log_mel, centers = network.tokens.log_mel, measured.call_args.kwargs["centers"]
    frames = (16_000 - log_mel.window_samples) // log_mel.hop_samples  # the last one
    expected = [0, (4000 - log_mel.window_samples / 2) / log_mel.hop_samples, frames]
    assert centers.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("kind, options", [(SpeechClassifier, {"encoder": {"depth": 1}}), (SpeechCNN, {"depth": 1})])
def test_frames_are_answered_as_the_waveform_is(kind, options):
    torch.manual_seed(0)
    network = kind(3, SpeechFrontend(8, mels=5, stride=3), **options).eval()
    waveforms = 0.1 * torch.randn(2, 9000)
    with torch.no_grad():
        frames = network.tokens.log_mel(waveforms)[:, None]
        assert torch.equal(logits_from_frames(network, frames), network(waveforms))
        assert not torch.equal(logits_from_frames(network, frames * 0), network(waveforms))
        assert torch.equal(network(waveforms), logits_from_frames(network, frames))  # no hook is left


def test_transcripts_have_fields_and_no_accuracy(finished_recognizer_run):
    subjects = [subject(str(finished_recognizer_run))]
    (result,) = compare(subjects, sample_for(subjects, None, 4), quick())
    assert result.missing == {"accuracy against what is visible": "SpeechRecognizer gives no single label"}
    assert result.visible is None and result.heads is not None and len(result.states) == 2


def test_attention_that_cannot_be_recomputed_is_reported_as_missing(tmp_path):
    small = {"img_size": 32, "embed_dim": 12, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}
    subjects = [of_timm(tmp_path / "swin", "swin_tiny_patch4_window7_224", **small)]
    (result,) = compare(subjects, sample_for(subjects, None, 4), quick())
    assert result.missing.keys() == {"attention"}
    assert "network.layers.0.blocks.0.attn (WindowAttention): " in result.missing["attention"]
    assert "windows" in result.missing["attention"]
    assert result.heads is None and result.visible.count == 4 and [e.what for e in result.examples] == ["field"]
    assert [layer.name for layer in result.main.layers] == ["network.layers.0", "network.layers.1"]


def test_an_untrained_network_of_timm_is_shown_as_it_is_before_training(images_compared):
    _, result = images_compared[0]
    assert [(state.trained, state.size) for state in result.states] == [(False, 32), (False, 48)]
    assert result.untrained is result.main and result.larger is result.states[1]
    assert result.missing.keys() == {"weights", "attention", "accuracy against what is visible"}
    assert "no weights available" in result.missing["weights"]
    assert result.missing["attention"].startswith("ResNet has no attention layer")
    assert result.missing["accuracy against what is visible"] == "it is not trained"
    assert result.visible is None and result.heads is None


def test_labels_that_are_not_the_samples_are_not_compared_with_them(pictures):
    result, sample = pictures
    renamed = Sample(sample.raw, sample.labels, [name.upper() for name in sample.names], None, sample.origin)
    (found,) = compare([result.subject], renamed, quick())
    assert found.visible.whole == 1 and found.visible.quantity == "agreement"  # with its own answers
    assert result.visible.quantity == "accuracy"


# What is refused.


def test_a_name_stands_for_one_model(finished_run, finished_speech_run):
    subjects = [subject(str(finished_run)), subject(str(finished_speech_run))]
    with pytest.raises(ValueError, match="0 is named twice"):
        compare(subjects, sample_for(subjects[:1], None, 4), PLAN)


def raw(side):
    return Sample(torch.randint(0, 256, (2, 3, side, side), dtype=torch.uint8), None, None, None, "noise")


def test_an_untrained_network_takes_its_sample_at_the_size_of_the_report():
    (result,) = compare([subject("timm:vit_tiny_patch16_224", size=32)], raw(32), Plan(2, 2, (2.0,), ["blocks.0"]))
    assert result.main.size == 64


def test_a_second_size_that_a_network_refuses_when_it_runs_is_named():
    (result,) = compare([subject("timm:visformer_tiny", size=32)], raw(32), Plan(2, 2, (1.0, 65 / 32), ["stem"]))
    assert "images of 65 px, untrained" in result.missing and len(result.states) == 1
