"""The command lines of tiny runs in fp32, on a few shapes and a few synthesized words; and batches of noise."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

from vitspeech.data.batches import SpeechBatch

ROOT = Path(__file__).parent.parent

SHORT = ["--trainer.max_epochs=2", "--trainer.precision=32-true", "--trainer.enable_progress_bar=false"]
TINY = [
    "--config=" + str(ROOT / "configs/shapes/vit.yaml"),
    "--data.init_args.count=250",
    "--data.init_args.batch=50",
    "--model.network.init_args.width=16",
    "--model.network.init_args.encoder.depth=2",
    *SHORT,
]

TINY_SPEECH = [
    "--config=" + str(ROOT / "configs/spoken_words/truncated.yaml"),
    "--data.init_args.count=100",
    "--data.init_args.batch=30",
    "--model.network.init_args.tokens.init_args.width=16",
    "--model.network.init_args.encoder.depth=2",
    *SHORT,
]

TINY_SEQUENCES = [
    "--config=" + str(ROOT / "configs/spoken_words/sequences.yaml"),
    "--data.init_args.source.init_args.count=100",
    "--data.init_args.count=60",
    "--data.init_args.batch=16",
    "--model.network.init_args.tokens.init_args.width=16",
    "--model.network.init_args.encoder.depth=2",
    *SHORT,
]

TINY_TRANSCRIBER = [
    *TINY_SEQUENCES,
    "--model=vitspeech.Transcription",
    "--model.network=vitspeech.SpeechTranscriber",
    "--model.network.init_args.decoder.depth=1",
    "--model.network.init_args.ctc=true",
    "--model.ctc_weight=0.3",
]

TINY_LABELER = [*TINY_SEQUENCES, "--model=vitspeech.Labeling", "--model.network=vitspeech.SpeechLabeler"]

TINY_MASKED = [
    *TINY_SEQUENCES,
    "--model=vitspeech.MaskedPrediction",
    "--model.network=vitspeech.MaskedSpeechModel",
    "--model.network.init_args.codes=32",
]

TINY_SYMBOLS = [
    "--config=" + str(ROOT / "configs/symbols/reverse.yaml"),
    "--data.init_args.count=64",
    "--data.init_args.batch=32",
    "--data.init_args.symbols=5",
    "--data.init_args.longest=5",
    "--data.init_args.longer=[6,7]",
    "--model.network.init_args.width=16",
    "--model.network.init_args.encoder.depth=1",
    "--model.network.init_args.decoder.depth=1",
    *SHORT,
]


def noise(transcripts: Sequence[Sequence[int]], lengths: Sequence[int], seed: int = 1) -> SpeechBatch:
    """A batch of noise in double precision. The noise fills the padding, too; each word spans the samples 0 .. 6."""
    generator = torch.Generator().manual_seed(seed)
    waveforms = torch.randn(len(transcripts), max(lengths), generator=generator, dtype=torch.float64)
    units = pad_sequence([torch.tensor(row) for row in transcripts], True, -1)
    spans = torch.zeros(*units.shape, 2, dtype=torch.long)
    spans[..., 1] = (units >= 0) * 7
    return SpeechBatch(waveforms, torch.tensor(lengths), units, spans)
