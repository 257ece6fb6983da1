"""Numbers that the modules of the page compute equal those of vitspeech."""

import json
from dataclasses import asdict

import numpy
import pytest
import soundfile
import torch
from speech_page import CTC, SAMPLE, TRUNCATED, model, noise, run, wav, whole

from vitspeech.decoding.ctc import GreedySearch
from vitspeech.decoding.keywords import KeywordDecoder, SpottingSettings
from vitspeech.export.runner.model_schema import SCHEMA, mistakes
from vitspeech.receptive.heads.figure import forward_with_attention

RECORDINGS = {
    "words": (TRUNCATED, SAMPLE.read_bytes()),
    "noise": (TRUNCATED, wav(noise(1.234, 0))),
    "floats": (CTC, wav(noise(2.1, 1), subtype="FLOAT")),
    "24 bits": (CTC, wav(noise(0.4, 2), subtype="PCM_24")),
    "shorter than a token": (TRUNCATED, wav(noise(0.05, 3))),
}


@pytest.mark.parametrize("kind", RECORDINGS)
def test_logits_of_a_recording_equal_those_of_torch(modules, kind):
    expected, computed = whole(*RECORDINGS[kind]), run(modules, *RECORDINGS[kind])["rows"]
    assert len(computed) == len(expected)
    if len(expected):
        numpy.testing.assert_allclose(computed, expected, rtol=0, atol=1e-3)


def test_attention_is_that_of_the_token_looked_at(modules):
    choose = [(row, block, head) for row in (0, 1, 9, 40, 93) for block in (0, 2, 4) for head in (0, 3)]
    network, samples = model(TRUNCATED).network, soundfile.read(SAMPLE, dtype="float32")[0]
    weights = forward_with_attention(network, torch.from_numpy(samples)[None]).weights[:, 0]
    computed = run(modules, TRUNCATED, SAMPLE.read_bytes(), choose)["weights"]
    for (row, block, head), bars in zip(choose, computed, strict=True):
        first, after = max(row - 8, 0), min(row + 3, weights.shape[-1])
        expected = weights[block, head, row, first:after].tolist()
        expected += [0.0] * (row + 3 - after)  # tokens after the recording
        assert [weight for _, weight in bars] == pytest.approx(expected, abs=1e-4), (row, block, head)
        assert [start for start, _ in bars] == pytest.approx([0.0225 + 0.04 * key for key in range(first, row + 3)])


def spotter_rows(seed, count=300):
    """Logits that hold words of all lengths, pauses and doubtful tokens: (T, 5)."""
    numbers = numpy.random.default_rng(seed)
    rows = numbers.standard_normal((count, 5)) * 1.5
    at = 0
    while at < count:
        length = int(numbers.integers(1, 30))
        rows[at : at + length, numbers.integers(5)] += numbers.uniform(0, 8)
        at += length
    return rows.astype(numpy.float32)


def spotter_settings(seed):
    numbers = numpy.random.default_rng(1000 + seed)
    names = {"refractory_s": 0.5, "smoothing_s": 0.3, "token_probability": 0.9, "pause_s": 0.3, "shortest_s": 0.3,
             "used_probability": 1, "least_fraction": 1}  # fmt: skip
    drawn = {name: float(numbers.uniform(0, most)) for name, most in names.items()}
    if seed % 3 == 0:
        drawn |= {"smoothing_s": 0.1, "pause_s": 0.14, "refractory_s": 0.0}  # 2.5 and 3.5 tokens
    thresholds = {word: float(numbers.uniform(0, 0.7)) for word in ("left", "right", "go")}
    return SpottingSettings(thresholds=thresholds if seed % 2 else 0.3, **drawn)


def test_words_equal_those_of_the_keyword_decoder(modules):
    labels = ["left", "right", "unknown", "go", "silence"]
    times = {"hop_s": 0.04, "first_s": 0.0225, "latency_s": 0.565}
    cases, found = [(spotter_rows(seed), spotter_settings(seed), 5 + seed) for seed in range(40)], 0
    computed = modules.evaluate(
        """async ([labels, times, cases]) => {
          const { KeywordDecoder } = await import("./decoding.js");
          return cases.map(([rows, settings, clip_tokens]) => {
            const decoder = new KeywordDecoder(labels, settings, { ...times, clip_tokens });
            return [...rows.flatMap((row) => decoder.push(row)), ...decoder.flush()];
          });
        }""",
        [labels, times, [(rows.tolist(), asdict(settings), clip) for rows, settings, clip in cases]],
    )
    for seed, ((rows, settings, clip), words) in enumerate(zip(cases, computed, strict=True)):
        decoder, parts = KeywordDecoder(labels, settings, **times, clip_tokens=clip), numpy.random.default_rng(seed)
        cuts = numpy.sort(parts.integers(len(rows), size=12))
        expected = [found for part in numpy.split(rows, cuts) for found in decoder.push(part)] + decoder.flush()
        assert [word["label"] for word in words] == [detection.label for detection in expected], seed
        for word, detection in zip(words, expected, strict=True):
            assert {**word, "label": 0} == pytest.approx({**asdict(detection), "label": 0}, rel=0, abs=1e-9), seed
        found += len(words)
    assert found > 200


def test_units_equal_those_of_greedy_search(modules):
    rows = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)).repeat_interleave(2, 0)
    search = GreedySearch()
    search.push(rows.log_softmax(-1))
    best = search.best()
    words = modules.evaluate(
        """async ([labels, rows]) => {
          const { UnitRuns } = await import("./decoding.js");
          const decoder = new UnitRuns(labels, { hop_s: 1, first_s: 0.5 });
          return [...rows.flatMap((row) => decoder.push(row)), ...decoder.flush()];
        }""",
        [list("abc"), rows.tolist()],
    )
    assert len(words) > 100
    assert [word["label"] for word in words] == ["abc"[unit] for unit in best.units]
    assert [(word["start_s"] - 0.5, word["end_s"] - 0.5) for word in words] == [*map(tuple, best.spans)]


def test_the_page_takes_what_fits_the_schema_of_run_py(modules, site):
    about, cases = json.loads((site / "models" / TRUNCATED / "model.json").read_text()), [{}]
    values = [None, True, -1, 1.5, 1e30, "x", "", "a\nb", "\u202e", "😀", "\ud800", "😀" * 1000, "x" * 1001]
    values += [[], {}, ["x", "x"]]
    for key in about:
        cases += [about | {key: value} for value in [*values, about[key]]]
        inner = about[key] if isinstance(about[key], dict) else {}
        cases += [about | {key: inner | {name: value}} for value in values for name in inner]
    computed = modules.evaluate(
        """async (cases) => {
          const { mistakes } = await import("./schema.js"), schema = await (await fetch("model.schema.json")).json();
          return cases.map((each) => mistakes(JSON.parse(each), schema, "it").next().value === undefined);
        }""",
        [json.dumps(case) for case in cases],
    )
    assert computed == [not next(mistakes(case, SCHEMA, "it"), "") for case in cases]
    assert 30 < sum(computed) < len(cases)


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_sound_of_another_rate_is_resampled_without_aliases(modules, rate):
    def tone(at_hz, hz):
        return 0.5 * numpy.sin(2 * numpy.pi * hz * numpy.arange(at_hz // 4) / at_hz)

    def resampled(samples):
        return modules.evaluate(
            """async ([samples, rate]) => {
              const { Resampler } = await import("./resample.js"), resampler = new Resampler(rate, 16000), parts = [];
              for (let first = 0, count = 1; first < samples.length; first += count, count = (count * 5 + 3) % 997) {
                parts.push(...resampler.push(Float32Array.from(samples.slice(first, first + count))));
              }
              const whole = new Resampler(rate, 16000).whole(Float32Array.from(samples));
              return [parts, [...whole]];
            }""",
            [samples.tolist(), rate],
        )

    for hz in (100, 1000, 3000, *([6500] if rate > 20000 else [])):
        parts, computed = resampled(tone(rate, hz))
        assert computed[: len(parts)] == parts and len(computed) == 4000
        numpy.testing.assert_allclose(computed[500:-500], tone(16000, hz)[500:-500], rtol=0, atol=1e-3)
    if rate > 20000:
        for hz in (8200, 9000, 10500):
            assert numpy.abs(resampled(tone(rate, hz))[1][500:-500]).max() < 1e-3
