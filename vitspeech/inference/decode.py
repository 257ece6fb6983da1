"""From the outputs of a network to transcripts: searches over batches of utterances.

Shapes: B batch, N samples, T tokens, C classes (the last class is the blank or the end).
"""

from collections.abc import Collection, Sequence
from contextlib import suppress

import torch
from torch import Tensor, nn

from vitspeech.checkpoint.model import Model
from vitspeech.decoding import alignment, autoregressive
from vitspeech.decoding.paths import Hypothesis
from vitspeech.decoding.prefix_scores import PrefixScores
from vitspeech.decoding.search import Search, new_ctc_search
from vitspeech.errors import InputError
from vitspeech.inference.transcript import Transcript, is_autoregressive, to_transcript
from vitspeech.models import SpeechTranscriber


@torch.inference_mode()
def transcribe_batch(
    network: nn.Module, labels: Sequence[str], waveforms: Tensor, lengths: Tensor, search: Search | None = None
) -> list[Transcript]:
    """Transcribe a batch of utterances that are padded at the end: (B, N), (B,) -> B transcripts."""
    search = with_default_beam(search, network, labels)
    if is_autoregressive(network):
        hypotheses = decode_autoregressive(network, waveforms, lengths, search)
    else:
        hypotheses = decode_ctc(network, labels, waveforms, lengths, search)
    return [to_transcript(best, labels, getattr(network, "tokens", None)) for best in hypotheses]


def decode_ctc(
    network: nn.Module, labels: Sequence[str], waveforms: Tensor, lengths: Tensor, search: Search
) -> list[Hypothesis]:
    """The best hypothesis of each utterance, from any network that `vitspeech.Recognition` can train."""
    hypotheses = []
    for log_probs in log_probabilities(*network(waveforms, lengths)):
        ctc_search = new_ctc_search(search, labels)
        ctc_search.push(log_probs)
        hypotheses.append(ctc_search.best())
    return hypotheses


def decode_autoregressive(
    network: SpeechTranscriber, waveforms: Tensor, lengths: Tensor, search: Search
) -> list[Hypothesis]:
    """The best hypothesis of each utterance, from an encoder-decoder; its spans are those of the best CTC alignment."""
    encoded, padding = network.encode(waveforms, lengths)
    cache, ctc_logits = network.start(encoded, padding), network.forward_ctc(encoded)
    tokens = padding.sum(1)
    sizes = {"start": network.start_unit, "longest": [longest_output(network, count) for count in tokens.tolist()]}
    is_joint = ctc_logits is not None and search.ctc_weight > 0
    if search.beam == 1 and not is_joint:
        hypotheses = autoregressive.greedy(network.step, cache, **sizes)
    else:
        scorer = PrefixScores(ctc_logits.float().log_softmax(-1), tokens) if is_joint else None
        options = {"beam": search.beam, "length_penalty": search.length_penalty, "scorer": scorer}
        weight = search.ctc_weight if is_joint else 0.0
        beams = autoregressive.beam_search(network.step, cache, **sizes, **options, ctc_weight=weight)
        hypotheses = [beam[0] for beam in beams]
    rows = [None] * len(hypotheses) if ctc_logits is None else log_probabilities(ctc_logits, tokens)
    return [with_spans(hypothesis, log_probs) for hypothesis, log_probs in zip(hypotheses, rows, strict=True)]


def longest_output(network: nn.Module, tokens: int) -> int:
    """The most units of a transcript, which bounds those of a decoder that never outputs the end.

    The network's `longest_output`; for a network without it, one unit per token of the input.
    """
    return network.longest_output(tokens) if hasattr(network, "longest_output") else tokens


def log_probabilities(logits: Tensor, tokens: Tensor) -> list[Tensor]:
    """The log-probabilities of each utterance without padding, on the CPU: (B, T, C), (B,) -> B tensors (T, C)."""
    padded = logits.float().log_softmax(-1).cpu()
    return [log_probs[:count] for log_probs, count in zip(padded, tokens.tolist(), strict=True)]


def with_spans(hypothesis: autoregressive.Hypothesis, log_probs: Tensor | None) -> Hypothesis:
    """A decoder's hypothesis with the spans of the best CTC alignment, or without spans if there is none."""
    units, spans = hypothesis.units, ()
    if log_probs is not None and units:
        with suppress(alignment.NoPathError):
            spans = alignment.align(log_probs, units).spans
    return Hypothesis(units, hypothesis.log_probability, spans)


def with_default_beam(search: Search | None, network: nn.Module, labels: Sequence[str]) -> Search:
    """The search with the beam that `None` stands for with this network."""
    return (search or Search()).with_default_beam(labels, ctc=not is_autoregressive(network))


def check_search(model: Model, search: Search | None, given: Collection[str] = ()) -> None:
    """Refuse a search that does not fit a model, before recordings are read.

    `given` are the names of the parameters of the search that a user has set.
    """
    name = type(model.network).__name__
    if (unused := sorted({"ctc_weight", "length_penalty"} & {*given})) and not is_autoregressive(model.network):
        raise InputError(f"{', '.join(unused)}: of encoder-decoders; {name} has CTC alone")
    if "ctc_weight" in given and model.network.ctc_head is None:
        raise InputError(f"ctc_weight: {name} has no CTC head")
    if search is not None and search.language_model is not None:
        if is_autoregressive(model.network):
            raise InputError(f"{name} has no search with a language model; use a recognizer with CTC")
        new_ctc_search(search, model.labels)  # whose language model must have the same units
