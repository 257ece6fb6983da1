"""How many pairs of words a stream gets right, by the pause between them.

python docs/results/repeated_words.py ROOT MODEL [MODEL ...]

For each pause: 100 test utterances in which a word is said twice, and 100 of two different words, as `WordSequences`
composes them, with noise at 20 dB. Both words are of one speaker, if that speaker has two clips. A pair is right if the
model returns these two words and no other.
"""

import sys
from dataclasses import replace

import numpy
import torch

import vitspeech
from vitspeech.checkpoint.folder import Model
from vitspeech.data.utterances.composition import compose
from vitspeech.data.utterances.manifest import Utterance
from vitspeech.data.utterances.sampling import UtteranceSampler
from vitspeech.inference.label_stream import LabelStream, is_labeling
from vitspeech.inference.spotting import WordSpotter
from vitspeech.inference.transcribe import is_transcribing

PAUSES_S, COUNT, SNR_DB, MARGIN_S, SEED = (0.1, 0.2, 0.3, 0.5, 0.8), 100, 20.0, 0.5, 0
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


def listener(model: Model) -> WordSpotter | LabelStream | vitspeech.TranscriptStream:
    """The stream of a model, which yields words."""
    if is_transcribing(model):
        return vitspeech.TranscriptStream(model)
    return LabelStream(model) if is_labeling(model) else WordSpotter(model)


@torch.inference_mode()
def main(root: str, *models: str) -> None:
    """Print a table with one row for each kind of pair and model."""
    torch.set_num_threads(1)  # the parts of a stream are too small for more
    loaded = {path: vitspeech.load(path) for path in models}
    words = [label for label in next(iter(loaded.values())).labels if label not in ("unknown", "silence")]
    source = vitspeech.SpeechCommands(words, root)
    sampler = UtteranceSampler(source, "test", (2, 2), (0.0, 0.0), (SNR_DB, SNR_DB))
    print(f"| pairs | {' | '.join(f'{pause} s' for pause in PAUSES_S)} |")
    for kind, repeated in KINDS.items():
        sounds = [
            [(pair.words, torch.from_numpy(compose(pair, sampler.clips, sampler.noises))) for pair in some]
            for some in (pairs(sampler, pause_s, repeated) for pause_s in PAUSES_S)
        ]
        for path, model in loaded.items():
            stream, cells = listener(model), []
            for some in sounds:
                right = sum([word.label for word in stream.words([sound])] == said for said, sound in some)
                cells.append(f"{100 * right / COUNT:.0f} %")
            print(f"| {kind}, {path} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
