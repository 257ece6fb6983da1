"""Training clips of keywords and of everything else; some are made anew for every batch.

Shapes: B batch, N samples of a clip, F clips that are kept, A samples of speech.
"""

from collections.abc import Mapping, Sequence

import numpy
import torch
from torch import Tensor

from vitspeech.data.batches import Items
from vitspeech.data.keywords.altered import half, join_halves, word_sized

ALTERED, SPEECH, PIECE, SILENT = "altered", "speech", "piece", "silence"  # the kinds of clips that are made


class KeywordItems(Items):
    """Clips in memory, followed by clips that are made for each batch from its seed.

    - `altered`: halves of two keywords joined, a keyword reversed, or half a keyword; labeled `unknown`.
    - `speech`: a cut of continuous speech; labeled `unknown`.
    - `piece`: a piece of continuous speech as long as a word, alone in its clip; labeled `unknown`.
    - `silence`: zeros, which `Keywords.augment_batch` replaces by noise.

    Args:
        inputs: Clips that are kept, int16 (F, N).
        labels: The label of each, int64 (F,).
        speakers: Who speaks each.
        made: Number of clips of each kind that an epoch has besides.
        words: Number of keywords: the labels below it are keywords, this one is `unknown`, the next one `silence`.
        speech: Continuous speech to cut from, int16 (A,), at least N samples; not used without clips of that kind.
    """

    def __init__(
        self,
        inputs: Tensor,
        labels: Tensor,
        speakers: Sequence[str],
        *,
        made: Mapping[str, int],
        words: int,
        speech: Tensor,
    ) -> None:
        super().__init__(inputs, labels, speakers)
        self.words, self.speech = words, speech
        self.kinds = [kind for kind, count in made.items() for _ in range(count)]
        self.keywords = (labels < words).nonzero()[:, 0]
        made_labels = [words + 1 if kind == SILENT else words for kind in self.kinds]
        self.labels = torch.cat((labels, torch.tensor(made_labels, dtype=labels.dtype)))

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[Tensor, Tensor, int]:
        indices, seed = batch
        kept = indices < len(self.inputs)
        clips = self.inputs.new_zeros(len(indices), self.inputs.shape[1])
        clips[kept] = self.inputs[indices[kept]]
        generator = numpy.random.default_rng(seed)
        for row in (~kept).nonzero()[:, 0].tolist():
            kind = self.kinds[int(indices[row]) - len(self.inputs)]
            if kind == ALTERED:
                clips[row] = torch.from_numpy(self.alter(generator))
            elif kind in (SPEECH, PIECE):
                start = int(generator.integers(len(self.speech) - clips.shape[1] + 1))
                cut = self.speech[start : start + clips.shape[1]]
                clips[row] = torch.from_numpy(word_sized(cut.numpy(), generator)) if kind == PIECE else cut
        return clips, self.labels[indices], seed

    def alter(self, generator: numpy.random.Generator) -> numpy.ndarray:
        """Make a clip of keywords that is no keyword: int16 (N,)."""
        first, second = self.keywords[generator.integers(len(self.keywords), size=2)].tolist()
        way, clip = generator.integers(4), self.inputs[first].numpy()
        if way == 0:
            return clip[::-1].copy()
        if way == 1:
            return half(clip, keep_first=bool(generator.integers(2)))
        # Two halves of one word are that word.
        is_other = self.labels[first] != self.labels[second]
        return join_halves(clip, self.inputs[second].numpy()) if is_other else clip[::-1].copy()
