"""The masked speech model: which frames it hears, which codes it predicts, and masks that can be repeated."""

import pytest
import torch
from arguments import nested
from torch.nn import functional as F

import vitspeech
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import MaskedSpeechModel

LENGTHS = torch.tensor([16_000, 9000, 12_003])


def model(dtype=torch.float64, stem="convolutional", stride=3, masked=0.4, span_ms=90, codes=7, **arguments):
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stride=stride, stem=stem)
    options = nested(**{"depth": 2, "heads": 3} | arguments)
    network = MaskedSpeechModel(codes, tokens, masked=masked, span_ms=span_ms, **options).to(dtype).eval()
    network.initialize(waveforms().to(dtype))
    return network


def waveforms(rows=3, samples=16_000):
    return torch.randn(rows, samples, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def frames_of(mask, stem, stride) -> list[int]:
    """The log-mel frames of the masked tokens of one utterance, written out."""
    first = (7 - stride) // 2 if stem == "convolutional" else 0
    return [first + stride * token + place for token in mask.nonzero()[:, 0].tolist() for place in range(stride)]


@pytest.mark.parametrize(("stem", "stride"), [("convolutional", 2), ("convolutional", 4), ("stacked", 3)])
@torch.no_grad()
def test_the_stem_hears_zeros_in_place_of_the_masked_frames_and_all_others(stem, stride, monkeypatch):
    network, heard = model(stem=stem, stride=stride), []
    hear = type(network.tokens.frames).forward
    monkeypatch.setattr(
        type(network.tokens.frames), "forward", lambda *given: heard.append(given[1]) or hear(*given), raising=True
    )
    mask = network(waveforms(1)).mask[0]
    expected = network.tokens.log_mel(waveforms(1))
    expected[:, frames_of(mask, stem, stride)] = 0
    assert 0 < mask.sum() < len(mask) and torch.equal(heard[0], expected)


@pytest.mark.parametrize(("stem", "stride"), [("convolutional", 2), ("convolutional", 4), ("stacked", 3)])
@torch.no_grad()
def test_a_code_is_the_vector_nearest_to_the_projected_frames_of_its_token(stem, stride):
    network = model(stem=stem, stride=stride)
    logits, codes, mask = network(waveforms(), LENGTHS)
    frames, found = network.tokens.log_mel(waveforms()), []
    for row in range(3):
        places = torch.tensor(frames_of(mask[row], stem, stride)).view(-1, stride)
        for token in places:
            projected = frames[row, token].flatten() @ network.projection
            found.append(F.cosine_similarity(projected[None], network.codebook).argmax().item())
    assert codes.tolist() == found and len(set(found)) > 2
    assert logits.shape == (mask.sum(), 7) and mask.shape == (3, network.tokens.count(LENGTHS).max())


@torch.no_grad()
def test_logits_are_those_of_masked_tokens_and_depend_on_no_masked_sound(monkeypatch):
    network = model(masked=0.2, left=3, right=2)
    sound = waveforms(1)
    mask = network(sound).mask
    monkeypatch.setattr(network, "draw_masks", lambda *_: mask)
    before = network(sound)
    frames = frames_of(mask[0], "convolutional", 3)
    silent = torch.ones(16_000, dtype=torch.bool)  # samples in no window of a frame that is heard
    for frame in set(range(98)) - set(frames):
        silent[160 * frame : 160 * frame + 400] = False
    assert silent[:15_000].any()
    after = network(sound.masked_fill(silent, 3.0))
    assert torch.equal(before.logits, after.logits) and not torch.equal(before.codes, after.codes)


@torch.no_grad()
def test_masks_of_evaluation_depend_on_nothing_but_the_samples():
    network, sound = model(), waveforms()
    alone = [network(sound[row : row + 1, :length]) for row, length in enumerate(LENGTHS.tolist())]
    torch.manual_seed(5)
    padded = torch.cat((sound, torch.ones(3, 500)), dim=1)
    together = network(padded[[2, 0, 1]], LENGTHS[[2, 0, 1]])
    order = [alone[2], alone[0], alone[1]]
    for row, one in enumerate(order):
        assert together.mask[row].nonzero().tolist() == one.mask[0].nonzero().tolist()
    assert torch.allclose(together.logits, torch.cat([one.logits for one in order]))
    assert torch.equal(together.codes, torch.cat([one.codes for one in order]))
    assert len({tuple(one.mask[0, :40].tolist()) for one in alone}) == 3


def test_masks_of_training_are_new_each_time_and_follow_from_the_seed():
    network, drawn = model().train(), []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        drawn.append(network(waveforms(), LENGTHS).mask)
    assert torch.equal(drawn[0], drawn[2]) and not torch.equal(drawn[0], drawn[1])


@pytest.mark.parametrize(("masked", "span_ms", "span"), [(0.0, 90, 3), (0.3, 90, 3), (0.6, 300, 10), (0.4, 30, 1)])
def test_spans_have_their_length_and_their_share_of_the_tokens(masked, span_ms, span):
    network = model(masked=masked, span_ms=span_ms)
    mask = torch.stack([network.draw_mask(4000, torch.Generator().manual_seed(seed)) for seed in range(5)])
    assert mask.double().mean().item() == pytest.approx(masked, abs=0.03)
    for row in mask.tolist():
        runs = "".join("x" if token else " " for token in row[:-span]).split()
        assert runs and min(map(len, runs[:-1]), default=span) >= span


@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_every_utterance_has_a_masked_token_and_no_padding_is_masked(count):
    network = model(masked=0.0)
    samples = network.tokens.window_samples + (count - 1) * network.tokens.hop_samples
    _, codes, mask = network(waveforms(2), torch.tensor([samples, 16_000]))
    assert mask[0, :count].any() and not mask[0, count:].any() and mask[1].any() and len(codes) == mask.sum()


@pytest.mark.parametrize("context", [{}, {"left": 3, "right": 2}, {"left": 4, "right": 0}, {"right": 0}])
def test_full_truncated_and_causal_encoders_learn_by_gradients_of_all_their_weights(context):
    network = model(**context).train()
    logits, codes, _ = network(waveforms(), LENGTHS)
    F.cross_entropy(logits, codes).backward()
    assert all(weight.grad.abs().max() > 0 for weight in network.parameters())
    assert {"projection", "codebook"} <= dict(network.named_buffers()).keys()


def test_codes_stay_the_same_in_mixed_precision():
    network, sound = model(torch.float32, codes=512), waveforms().float()
    with torch.autocast("cpu", torch.bfloat16):
        found = network(sound).codes
    assert torch.equal(found, network(sound).codes)


def test_a_recurrent_encoder_can_be_pretrained_too():
    tokens = SpeechFrontend(12, mels=17)
    network = MaskedSpeechModel(7, tokens, vitspeech.RecurrentEncoder(12, depth=1)).eval()
    assert network(waveforms().float(), LENGTHS).logits.isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"codes": 1}, "codes=1 is not a number from 2"),
        ({"masked": 1.0}, "masked=1.0 is not within 0 .. 1"),
        ({"span_ms": 10}, "span_ms=10 is not a number from 30"),
        ({"stride": 8, "span_ms": 90}, "stride=8 is above the 7 frames of a token"),
    ],
)
def test_numbers_out_of_range_are_refused_in_one_line(arguments, message):
    with pytest.raises(vitspeech.InputError, match=message) as caught:
        model(**arguments)
    assert "\n" not in str(caught.value)
