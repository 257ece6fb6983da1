"""Which words models find in pairs and in noise alone: python docs/results/word_streams.py ROOT MODEL [MODEL ...]

For each pause: 100 test utterances in which a word is said twice, and 100 of two different words, as `WordSequences`
composes them, with noise at 20 dB. Both words are of one speaker, if that speaker has two clips. A pair is right if the
model returns these two words and no other. The noise alone is the test part of the six recordings, 40 s in all.
Models are streamed, apart from encoder-decoders, which transcribe a whole recording.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy
import torch
from torch import Tensor

import vitspeech
from vitspeech.checkpoint.model import Model
from vitspeech.data.clips.noise import at_level
from vitspeech.data.utterances.manifest import Utterance
from vitspeech.data.utterances.word_clips import compose
from vitspeech.data.utterances.word_sequences import UtteranceSampler
from vitspeech.inference.decode import transcribe_batch
from vitspeech.inference.label_stream import LabelStream, is_labeling
from vitspeech.inference.spotting import WordSpotter
from vitspeech.inference.transcript import is_autoregressive, is_transcribing

PAUSES_S, COUNT, SNR_DB, MARGIN_S, SEED = (0.1, 0.2, 0.3, 0.5, 0.8), 100, 20.0, 0.5, 0
LEVELS_DBFS = (-60.0, -45.0, -30.0)
KINDS = {"the same word twice": True, "two words": False}


def pairs(sampler: UtteranceSampler, pause_s: float, repeated: bool) -> list[Utterance]:
    """Utterances of two words, the same or different, with a pause between them and `MARGIN_S` on either side."""
    generator, margin, found = numpy.random.default_rng(SEED), round(MARGIN_S * 16_000), []
    while len(found) < COUNT:
        utterance = sampler.sample("", generator)
        if (utterance.words[0] == utterance.words[1]) == repeated:
            first, second = utterance.spans
            starts = [margin, margin + first[1] - first[0] + round(pause_s * 16_000)]
            samples = starts[1] + second[1] - second[0] + margin
            found.append(replace(utterance, starts=starts, samples=samples))
    return found


def listener(model: Model) -> Callable[[Tensor], list[str]]:
    """A function that returns the words in a recording, int16 or float (N,)."""
    if is_autoregressive(model.network):
        return lambda samples: transcribed(model, samples)
    if is_transcribing(model):
        stream = vitspeech.TranscriptStream(model)
    else:
        stream = LabelStream(model) if is_labeling(model) else WordSpotter(model)
    return lambda samples: [word.label for word in stream.words([samples])]


def transcribed(model: Model, samples: Tensor) -> list[str]:
    """The words that an encoder-decoder finds in a whole recording, int16 or float (N,)."""
    waveforms = samples[None] if samples.is_floating_point() else samples[None] / 32768
    return transcribe_batch(model.network, model.labels, waveforms, torch.tensor([len(samples)]))[0].text.split()


def print_pairs(models: Mapping[str, Model], sampler: UtteranceSampler) -> None:
    """Print how many pairs are right, one row for each kind and model."""
    print(f"| pairs | {' | '.join(f'{pause} s' for pause in PAUSES_S)} |")
    for kind, repeated in KINDS.items():
        sounds = [
            [(pair.words, torch.from_numpy(compose(pair, sampler.clips, sampler.noises))) for pair in some]
            for some in (pairs(sampler, pause_s, repeated) for pause_s in PAUSES_S)
        ]
        for path, model in models.items():
            words = listener(model)
            counts = [sum(words(sound) == said for said, sound in some) for some in sounds]
            print(f"| {kind}, {path} | {' | '.join(f'{100 * count / COUNT:.0f} %' for count in counts)} |", flush=True)


def print_noise(models: Mapping[str, Model], noises: Sequence[Tensor]) -> None:
    """Print how many words are found in noise alone, int16 (N,), one row for each model."""
    seconds, levels = sum(map(len, noises)) / 16_000, (f"{dbfs:.0f} dBFS" for dbfs in LEVELS_DBFS)
    print(f"\n| words in {seconds:.0f} s | {' | '.join(levels)} |")
    for path, model in models.items():
        words, counts = listener(model), []
        for dbfs in LEVELS_DBFS:
            sounds = (at_level(noise[None] / 32768, torch.tensor([[dbfs]]))[0].clamp(-1, 1) for noise in noises)
            counts.append(sum(len(words(sound)) for sound in sounds))
        print(f"| {path} | {' | '.join(map(str, counts))} |", flush=True)


@torch.inference_mode()
def main(root: str, *paths: str) -> None:
    """Print both tables."""
    torch.set_num_threads(1)  # the parts of a stream are too small for more
    models = {path: vitspeech.load(path) for path in paths}
    words = [label for label in next(iter(models.values())).labels if label not in ("unknown", "silence")]
    source = vitspeech.SpeechCommands(words, root)
    print_pairs(models, UtteranceSampler(source, "test", (2, 2), (0.0, 0.0), (SNR_DB, SNR_DB)))
    print_noise(models, list(source.backgrounds("test").values()))


if __name__ == "__main__":
    main(*sys.argv[1:])
