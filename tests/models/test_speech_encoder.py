"""The speech encoder: an utterance of a padded batch becomes what it becomes alone, and what can't be encoded.

Shapes: B = 5 utterances, D = 12, H = 3, tokens of 1,360 samples every 480.
"""

import pytest
import torch
from arguments import nested
from torch.testing import assert_close

from vitspeech import RecurrentEncoder, SpeechLabeler, SpeechRecognizer, SpeechTranscriber, WindowMLP
from vitspeech.frontends import SpeechFrontend
from vitspeech.models.speech import SpeechEncoder

LENGTHS = torch.tensor([7001, 1360, 11_213, 1839, 1840])
TOKENS = [12, 1, 21, 1, 2]


def encoder(dtype=torch.float64, stem="convolutional", stride=3, **arguments) -> SpeechEncoder:
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stride=stride, stem=stem)
    return SpeechEncoder(tokens, **nested(**{"depth": 2, "heads": 3} | arguments)).to(dtype).eval()


def waveforms(samples=13_000, dtype=torch.float64):
    """Noise all along: what is no utterance is not zero."""
    return torch.randn(5, samples, generator=torch.Generator().manual_seed(1), dtype=dtype)


@pytest.mark.parametrize("contexts", [{}, {"left": 3, "right": [2, 0]}, {"left": 0, "right": 0}, {"right": 1}])
@pytest.mark.parametrize("positions", [None, "relative", "rotary"])
@torch.no_grad()
def test_tokens_of_a_padded_utterance_are_those_of_the_utterance_alone(positions, contexts):
    network, given = encoder(positions=positions, **contexts), waveforms()
    encoded, padding = network.encode(given, LENGTHS)
    assert encoded.shape == (5, 21, 12)
    assert padding.tolist() == [[place < count for place in range(21)] for count in TOKENS]
    for row, waveform, length, count in zip(encoded, given, LENGTHS.tolist(), TOKENS, strict=True):
        alone, none = network.encode(waveform[None, :length])
        assert none is None and alone.shape == (1, count, 12)
        assert (row[:count] - alone[0]).abs().max() < 1e-12


@pytest.mark.parametrize(("stem", "stride"), [("convolutional", 1), ("convolutional", 4), ("stacked", 5)])
@torch.no_grad()
def test_tokens_are_counted_as_windows_that_fit(stem, stride):
    network = encoder(stem=stem, stride=stride)
    reach = 7 if stem == "convolutional" else stride
    window, hop = 400 + 160 * (reach - 1), 160 * stride
    lengths = torch.tensor([window, window + hop - 1, window + hop, 9999, 12_345])
    _, padding = network.encode(waveforms(), lengths)
    expected = [sum(start + window <= length for start in range(0, length, hop)) for length in lengths.tolist()]
    assert padding.sum(1).tolist() == expected and padding.shape[1] == max(expected)


@torch.no_grad()
def test_all_of_each_row_is_taken_where_no_lengths_are_given():
    network, given = encoder(), waveforms(8001)
    encoded, none = network.encode(given)
    whole, padding = network.encode(given, torch.tensor([8001] * 5))
    assert none is None and padding.all() and encoded.shape == (5, 14, 12)
    assert (encoded - whole).abs().max() < 1e-12


def test_attention_is_limited_to_the_context():
    network = encoder(left=3, right=[2, 0])
    given = waveforms()
    before = network.encode(given)[0]
    given[:, 12_400:] += 1.0  # the last token alone sees these
    changed = (network.encode(given)[0] != before).any(-1).any(0)
    assert changed.shape == (25,) and changed.nonzero().flatten().tolist() == [22, 23, 24]


@pytest.mark.parametrize(("lengths", "named"), [([5000, 1360, 1359, 2000, 4000], 2), ([5000, 2000, 1999, 2000, 0], 4)])
def test_an_utterance_too_short_for_a_token_is_named(lengths, named):
    message = rf"utterance {named} of the batch, of {lengths[named]} samples is below the 1360 of one token"
    with pytest.raises(ValueError, match=message):
        encoder().encode(waveforms(), torch.tensor(lengths))


@pytest.mark.parametrize("lengths", [[5000, 99_999, 5000, 5000, 5000], [5000]])
def test_lengths_that_do_not_fit_the_waveforms_are_an_error(lengths):
    with pytest.raises(ValueError, match="do not fit waveforms"):
        encoder().encode(waveforms(), torch.tensor(lengths))


def test_the_context_is_that_of_all_blocks_together():
    assert encoder(left=3, right=[2, 0]).context_ms == {"look_back_ms": 180, "look_ahead_ms": 60, "delay_ms": 145}
    assert encoder(left=2).context_ms == {"look_back_ms": 120, "look_ahead_ms": None, "delay_ms": None}
    assert encoder().context_ms == {"look_back_ms": None, "look_ahead_ms": None, "delay_ms": None}


def test_initialize_sets_the_scale_of_the_frames():
    network, given = encoder(), torch.linspace(0.01, 0.3, 13_000) * waveforms()
    network.initialize(given)
    frames = network.tokens.log_mel(given).flatten(0, 1)
    assert frames.mean(0).abs().max() < 1e-9 and (frames.std(0) - 1).abs().max() < 1e-9


ENCODERS = {
    "bidirectional": lambda: RecurrentEncoder(16, 1, hidden=6),
    "causal": lambda: RecurrentEncoder(16, 2, cell="gru", bidirectional=False),
    "window": lambda: WindowMLP(16, 2, 1, hidden=12),
    "sinusoidal": lambda: {"depth": 1, "heads": 2, "norm": "post"},
}
MODELS = {
    "labeler": lambda **parts: SpeechLabeler(4, **parts),
    "recognizer": lambda **parts: SpeechRecognizer(3, **parts),
    "transcriber": lambda **parts: SpeechTranscriber(3, ctc=True, decoder={"depth": 1, "heads": 2}, **parts),
}


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("model", MODELS)
def test_every_model_takes_every_encoder_and_padding_changes_nothing(model, encoder):
    torch.manual_seed(0)
    parts = {"tokens": SpeechFrontend(16, mels=20, stride=4), "encoder": ENCODERS[encoder](), "positions": "sinusoidal"}
    network = MODELS[model](**parts).double().eval()
    audio, lengths = torch.randn(2, 9000, dtype=torch.float64) / 10, torch.tensor([9000, 5000])
    encoded, padding = network.encode(audio, lengths)
    alone = network.encode(audio[1:, :5000])[0][0]
    assert_close(encoded[1][padding[1]], alone)
    units = (torch.tensor([[0, 1], [2, -1]]),) if model == "transcriber" else ()
    outputs = [part for part in network.train()(audio, lengths, *units) if part.is_floating_point()]
    assert all(part.isfinite().all() for part in outputs)
    sum(part.square().sum() for part in outputs).backward()
    assert [name for name, parameter in network.named_parameters() if parameter.grad is None] == []


def test_counts_of_long_recordings_are_not_rounded_in_half_precision():
    network = SpeechRecognizer(7, SpeechFrontend(12, mels=17, stride=3), {"depth": 2, "heads": 3}).eval()
    with torch.autocast("cpu", torch.bfloat16):
        logits, tokens = network(torch.randn(1, 156_080))
    assert tokens.tolist() == [logits.shape[1]] and logits.shape[1] > 256 and logits.shape[1] % 2
