"""Transcribe recordings of up to one minute, or sequences of symbols, with a CTC recognizer or an encoder-decoder.

vitspeech transcribe checkpoints/spoken-words-ctc talk.wav recordings/
vitspeech transcribe checkpoints/spoken-words-ctc talk.wav --times --picture talk.png
vitspeech transcribe checkpoints/spoken-words-ctc talk.wav --attention attention.png
vitspeech transcribe checkpoints/spoken-words-attention recordings/ --out words.csv --beam 1 --ctc-weight 0
vitspeech transcribe checkpoints/spoken-words-ctc recordings/ --language-model words.arpa --language-weight 0.5
vitspeech transcribe checkpoints/spoken-words-ctc recordings/ --device cuda --out words.parquet --resume
vitspeech transcribe runs/symbols-reverse/0 --symbols "3 1 4 1 5" "2 7 1 8" --picture reverse.png

A recording that can't be read is reported and left out; the exit status is then 3. A table has its place once it is
whole. Until then its rows are in FILE.partial (FILE.parts for Parquet), also after an interruption: --resume goes on
there.
For recordings of any length and for the microphone use `vitspeech stream`.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vitspeech import command_line

if TYPE_CHECKING:
    from vitspeech.checkpoint import Model
    from vitspeech.inference.transcribe import Transcript

COLUMNS = {"file": "", "unit": "", "start_s": ".3f", "end_s": ".3f", "status": ""}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech transcribe`: one line per recording, or a table."""
    parser = command_line.parser("transcribe", __doc__)
    parser.add_argument("checkpoint", help="folder of a released model or a finished run")
    parser.add_argument("paths", nargs="*", metavar="FILE_OR_FOLDER", help="recordings, or folders of them")
    symbols = "symbols in place of recordings, for a model of symbols; each TEXT is one sequence"
    parser.add_argument("--symbols", nargs="+", metavar="TEXT", help=symbols)
    parser.add_argument("--times", action="store_true", help="print when each word (or character) was spoken as well")
    command_line.add_table(parser, COLUMNS)
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw one recording with its transcript")
    attention = "draw what the encoder attends to in one recording"
    parser.add_argument("--attention", type=Path, metavar="PNG", help=attention)
    parser.add_argument(
        "--beam", type=int, help="number of hypotheses in the beam; 1 is greedy (default 8; 1 for symbols)"
    )
    weight = "weight of CTC in an encoder-decoder's search (default 0.7)"
    parser.add_argument("--ctc-weight", type=float, help=weight)
    penalty = "exponent of the length by which an encoder-decoder's scores are divided (default 0.6)"
    parser.add_argument("--length-penalty", type=float, help=penalty)
    command_line.add_language_model(parser)
    command_line.add_device(parser)
    command_line.add_trust(parser)
    options = parser.parse_args(arguments)
    if bool(options.paths) == (options.symbols is not None):
        parser.error("give either recordings or --symbols")
    if options.symbols and (options.times or options.out or options.csv or options.resume):
        parser.error("--times, --out, --csv and --resume are for recordings")
    if options.attention and (options.symbols or len(options.paths) > 1 or Path(options.paths[0]).is_dir()):
        parser.error("--attention draws one recording: give one, and no folder")
    if options.picture and not options.symbols and (len(options.paths) > 1 or Path(options.paths[0]).is_dir()):
        parser.error("--picture draws one file: give one, and no folder")
    language = command_line.language_settings(options)
    if language and options.symbols:
        parser.error("--language-model is for recordings")
    table = command_line.find_table(options, options.paths)
    command_line.check_picture(options.picture, "--picture")
    command_line.check_picture(options.attention, "--attention")

    import vitspeech
    from vitspeech.inference.tables import open_results, stopped_at
    from vitspeech.inference.transcribe import BATCH
    from vitspeech.plots.transcript import draw_transcript
    from vitspeech.plots.utterance_attention import check_drawable, draw_utterance_attention

    settings = {name: getattr(options, name) for name in ("beam", "length_penalty", "ctc_weight")}
    given = {name: value for name, value in settings.items() if value is not None}
    device = command_line.find_device(options.device)
    model = vitspeech.load(options.checkpoint, trust=options.trust)
    model.network.to(device)
    if options.symbols:
        transcribe_symbols(model, options.symbols, given, options.picture)
        return
    search = vitspeech.Search(**given, **language)
    if options.attention:
        check_drawable(model)
    results = partial(vitspeech.transcribe, model, options.paths, search=search, batch=BATCH)
    if table is None:
        unread = command_line.UnreadFiles("transcribe")
        # Lines on a terminal show progress by themselves.
        for path, transcript in results(on_error=unread.add, progress=not sys.stdout.isatty()):
            print(f"{path}: {transcript.text}")
            for unit in transcript.units if options.times else ():
                print(f"{unit.start_s:8.2f} – {unit.end_s:.2f} s  {unit.label}")
    else:
        settings = {"command": "transcribe", "device": device.partition(":")[0]} | search.settings()
        options_of_table = {"batch": BATCH, "resume": options.resume} | settings
        with open_results(table, COLUMNS, model, options.paths, **options_of_table) as rows:
            unread = command_line.UnreadFiles("transcribe", rows)
            for path, transcript in results(on_error=unread.add, progress=True, after=stopped_at(rows)):
                rows.add(path, table_rows(path, transcript))
        print(table)
    unread.exit()
    if options.picture:
        draw_transcript(model, Path(options.paths[0]), options.picture, search=search)
        print(options.picture)
    if options.attention:
        draw_utterance_attention(model, Path(options.paths[0]), options.attention, search=search)
        print(options.attention)


def transcribe_symbols(model: "Model", texts: Sequence[str], settings: dict[str, float], picture: Path | None) -> None:
    """Print each sequence with its output, and draw what the decoder attends to."""
    import vitspeech
    from vitspeech.inference.symbols import read_symbols
    from vitspeech.plots.cross_attention import align_symbols, draw_alignments

    transcripts = vitspeech.transcribe_symbols(model, texts, search=vitspeech.Search(**{"beam": 1} | settings))
    for text, transcript in zip(texts, transcripts, strict=True):
        spaced = any(character.isspace() for character in text) or any(len(label) > 1 for label in model.labels)
        print(f"{text} -> {transcript.text if spaced else transcript.text.replace(' ', '')}")
    if picture:
        symbols = model.preprocessing["symbols"]
        pairs = zip([read_symbols(text, symbols) for text in texts], transcripts, strict=True)
        alignments = [align_symbols(model.network, symbols, model.labels, given, said.indices) for given, said in pairs]
        draw_alignments(alignments, picture)
        print(picture)


def table_rows(path: Path, transcript: "Transcript") -> list[tuple]:
    """One row per unit, or per word with empty times if the times are unknown; an empty row if there are no words."""
    if transcript.units:
        return [(path, unit.label, unit.start_s, unit.end_s, "ok") for unit in transcript.units]
    return [(path, word, None, None, "ok") for word in transcript.text.split() or [""]]
