"""Pieces of words (byte-pair units, Sennrich et al. 2016, arXiv:1508.07909), learned from training transcripts.

`tokenizers` learns and applies them. `sentencepiece` does the same, but keeps its model in a binary file; here labels
and merges are lists of text, which a config and `model.json` can hold.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Self

from vitspeech.errors import InputError

WORD_START = "▁"  # U+2581: before the first letter of a word, as in SentencePiece
FEWEST, MOST = 30, 100_000


class Subwords:
    """Splits words into pieces.

    Args:
        labels: All pieces; the first piece of a word begins with `WORD_START`.
        merges: Pairs of pieces, separated by a space, in the order in which they are joined.
    """

    def __init__(self, labels: Sequence[str], merges: Sequence[str]) -> None:
        from tokenizers import Tokenizer, models, pre_tokenizers

        self.labels, self.merges = list(labels), list(merges)
        pairs = [tuple(merge.split(" ")) for merge in merges]
        try:
            self.tokenizer = Tokenizer(models.BPE({label: index for index, label in enumerate(labels)}, pairs))
        except Exception as error:  # the library raises no class of its own
            raise InputError(f"the merges of the pieces do not fit their labels ({error})") from None
        self.tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(WORD_START, prepend_scheme="always")
        self.characters = set("".join(self.labels))

    @classmethod
    def learn(cls, transcripts: Iterable[str], count: int) -> Self:
        """Learn so many pieces; the same from the same transcripts in any order."""
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(WORD_START, prepend_scheme="always")
        trainer = trainers.BpeTrainer(vocab_size=count, show_progress=False)
        tokenizer.train_from_iterator(transcripts, trainer)
        labels = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
        if len(labels) != count:
            raise InputError(f"vocab_size={count}: {len(labels)} pieces can be learned from the training transcripts")
        merges = json.loads(tokenizer.to_str())["model"]["merges"]
        return cls(labels, [" ".join(pair) for pair in merges])

    def encode(self, words: Sequence[str]) -> list[int]:
        """The indices of the pieces of a transcript."""
        text = " ".join(words)
        if foreign := sorted(set(text) - self.characters - {" "}):
            raise InputError(f"{foreign[0]!r} of {text!r} is in none of the pieces")
        return self.tokenizer.encode(text).ids

    def __getstate__(self) -> dict:
        return {"labels": self.labels, "merges": self.merges}

    def __setstate__(self, state: dict) -> None:
        self.__init__(**state)
