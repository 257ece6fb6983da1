"""An encoder-decoder as two graphs: the source, computed once, and one step of the decoder with its cache.

A caller drives them (docs/export.md has a greedy search in numpy):

    ctc_log_probs, source, cache = model.onnx(samples)        # without a CTC head: source, cache
    log_probs, cache = decoder.onnx(units, source, cache)     # the first unit is `start_unit`
    …                                                         # the last class of log_probs is the end

Shapes: B sequences, N samples or symbols, T tokens of the source, D model width, L blocks of the decoder, H heads,
K head width, P units decoded so far, U units.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from vitspeech.attention import Decoder
from vitspeech.attention.decoder import BlockCache, DecoderBlock
from vitspeech.checkpoint.model import Model
from vitspeech.decoding.autoregressive import greedy
from vitspeech.decoding.vocabulary import vocabulary_kind
from vitspeech.errors import InputError
from vitspeech.export.graphs import ExportSpec, Graph, generator
from vitspeech.export.parity import compare, recording
from vitspeech.models.seq2seq import learned_rows

SOURCE, STEP = "model.onnx", "decoder.onnx"
LENGTHS_S = (1.0, 0.4, 2.3)  # of the compared recordings, besides the shortest one
LENGTHS = (7, 2, 12)  # of the compared sequences of symbols
UNITS = 6  # that are compared, whatever the decoder outputs


class SourceGraph(nn.Module):
    """The keys and values of one input for the cross-attention of every block, and an empty cache.

    Args:
        network: An encoder-decoder in evaluation mode, whose decoder is a transformer.

    Shape:
        samples within ±1 (1, N), or symbols (1, N) -> CTC log-probabilities (1, T, U + 1), with a CTC head only,
        source (2L, 1, H, T, K), cache (2L, 1, H, 0, K): keys, then values
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        encoded = self.network.encoder(self.network.tokens(inputs))
        blocks = [block.start(encoded) for block in self.network.decoder.blocks]
        source = torch.stack([block.source_key for block in blocks] + [block.source_value for block in blocks])
        ctc = self.network.forward_ctc(encoded)
        return *(() if ctc is None else (ctc.log_softmax(-1),)), source, source[:, :, :, :0]


class StepGraph(nn.Module):
    """The next unit. The cache grows by one unit a step; keys further back than `left` are masked.

    Args:
        network: As in `SourceGraph`.

    Shape:
        units (B,), source (2L, B, H, T, K), cache (2L, B, H, P, K) -> log-probabilities (B, U + 1), cache (2L, B, H,
        P + 1, K)
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, units: Tensor, source: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        decoder, past = self.network.decoder, cache.shape[3]
        x = decoder.add_positions(self.network.embed(units)[:, None], past)
        depth, keys, values = len(decoder.blocks), [], []
        for number, block in enumerate(decoder.blocks):
            parts = (each[at] for each in (cache, source) for at in (number, depth + number))
            x, key, value = block_step(block, x, BlockCache(*parts), past)
            keys, values = [*keys, key], [*values, value]
        log_probs = self.network.head(decoder.norm(x)[:, 0]).log_softmax(-1)
        return log_probs, torch.stack(keys + values)


def block_step(block: DecoderBlock, x: Tensor, cache: BlockCache, past: int) -> tuple[Tensor, Tensor, Tensor]:
    """As `DecoderBlock.step` for one token, but all keys and values are kept: -> (B, 1, D), two (B, H, P + 1, K)."""
    attention, cross = block.attention, block.cross_attention
    query, key, value = attention.project(block.pre_norm(x, block.attention_norm), None, past)
    query, key = attention.score_inputs(query, key, value)
    key, value = torch.cat((cache.key, key), dim=2), torch.cat((cache.value, value), dim=2)
    mask = None if attention.left is None else (torch.arange(past + 1) >= past - attention.left)[None]
    attended = attention.attend_cached(query, key, value, mask, first=-past)
    x = block.add_residual(x, attended, block.attention_norm)
    query = block.cross_query(x, cache)
    attended = cross.attend_cached(query, cache.source_key, cache.source_value, None)
    return block.mlp_branch(block.add_residual(x, attended, block.cross_norm)), key, value


def encoder_decoder_spec(model: Model) -> ExportSpec:
    """How an encoder-decoder of samples or symbols is exported; an `InputError` if its decoder is no transformer."""
    network, name = model.network, type(model.network).__name__
    if not isinstance(network.decoder, Decoder):
        raise InputError(f"{name} can't be exported: its decoder {type(network.decoder).__name__} is not a transformer")
    of_speech = "sample_rate_hz" in model.preprocessing
    source, step = SourceGraph(network).eval(), StepGraph(network).eval()
    has_ctc, first = network.ctc_head is not None, next(inputs_of(model))
    with torch.no_grad():
        *_, keys, cache = (part.clone() for part in source(first))
    named = "samples" if of_speech else "symbols"
    outputs = [*["ctc_log_probs"] * has_ctc, "source", "cache"]
    two = {"source": keys.expand(-1, 2, -1, -1, -1), "cache": keys[:, :, :, :3].expand(-1, 2, -1, -1, -1)}
    any_size = {"units": {0: "sequences"}} | {
        name: {1: "sequences", 3: size} for name, size in (("source", "tokens"), ("cache", "past"))
    }
    graphs = {
        SOURCE: Graph(source, {named: first}, outputs, {named: {1: "length"}}),
        STEP: Graph(step, {"units": torch.zeros(2).long()} | two, ["log_probs", "cache_out"], any_size),
    }
    tokens, besides, rows = network.tokens, network.longest_output(0), learned_rows(network.decoder)
    most = None if rows is None else network.within_positions(rows)
    metadata: dict[str, Any] = {
        "start_unit": network.start_unit,
        "end": network.head.out_features - 1,
        "longest_input": learned_rows(network.encoder),
        "longest_output": {"per_token": network.longest_output(1) - besides, "besides": besides, "most": most},
        "separator": " " if vocabulary_kind(model.labels) == "words" else "",
        "ctc": has_ctc,
        "cache_shape": list(cache.shape),
    }
    if of_speech:
        sizes = {"hop_samples": tokens.hop_samples, "window_samples": tokens.window_samples}
        metadata |= {"sample_rate_hz": model.preprocessing["sample_rate_hz"]} | sizes
    else:
        metadata["symbols"] = list(model.preprocessing["symbols"])
    return ExportSpec("encoder-decoder", graphs, lambda sessions: compare_steps(sessions, model), metadata)


def inputs_of(model: Model) -> Iterator[Tensor]:
    """Inputs to compare, the shortest one last: parts of the sample recording, or random symbols (1, N).

    None has more tokens than there are learned positions.
    """
    rows = learned_rows(model.network.encoder) or math.inf
    if "sample_rate_hz" in model.preprocessing:
        rate_hz, tokens = model.preprocessing["sample_rate_hz"], model.network.tokens
        shortest_s, hop_s = tokens.window_samples / rate_hz, tokens.hop_samples / rate_hz
        lengths_s = (min(seconds, shortest_s + (rows - 1) * hop_s) for seconds in (*LENGTHS_S, shortest_s))
        yield from (recording(rate_hz, 0.1, seconds)[None] for seconds in lengths_s)
    else:
        numbers = generator()
        for length in (*(min(length, rows) for length in LENGTHS), 1):
            yield torch.randint(len(model.preprocessing["symbols"]), (1, length), generator=numbers)


def compare_steps(sessions: Mapping[str, Any], model: Model) -> dict[str, float]:
    """Compare CTC, and the log-probabilities of two sequences at once: the best units and random ones; see `compare`.

    If no arg-max differs after the best units, greedy search with the graphs finds these units, too.
    """
    network, numbers, pairs = model.network, generator(), []
    for inputs in inputs_of(model):
        with torch.inference_mode():
            encoded, padding = network.encode(inputs)
            cache, longest = network.start(encoded, padding), [network.longest_output(encoded.shape[1])]
            (best,) = greedy(network.step, cache, start=network.start_unit, longest=longest)
            count = network.within_positions(len(best.units) + UNITS)
            units = torch.randint(network.start_unit, (2, count), generator=numbers)
            units[0, : len(best.units)] = torch.tensor(best.units)
            expected = network.forward_decoder(encoded.expand(2, -1, -1), None, units).log_softmax(-1)
            ctc = network.forward_ctc(encoded)
        *found, source, cache = sessions[SOURCE].run(None, {sessions[SOURCE].get_inputs()[0].name: inputs.numpy()})
        pairs += [] if ctc is None else [(ctc.log_softmax(-1)[0].numpy(), found[0][0])]
        source, cache = (part.repeat(2, axis=1) for part in (source, cache))
        for column in range(units.shape[1] + 1):
            last = units[:, column - 1].numpy() if column else numpy.full(2, network.start_unit)
            log_probs, cache = sessions[STEP].run(None, {"units": last, "source": source, "cache": cache})
            pairs.append((expected[:, column].numpy(), log_probs))
    return compare(pairs)
