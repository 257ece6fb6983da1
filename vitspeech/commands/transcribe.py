"""Transcribe recordings, or sequences of symbols, with a CTC recognizer or an encoder-decoder.

vitspeech transcribe checkpoints/spoken-words-ctc talk.wav recordings/
vitspeech transcribe checkpoints/spoken-words-ctc talk.wav --times --picture talk.png
vitspeech transcribe checkpoints/spoken-words-ctc talk.wav --format srt > talk.srt
vitspeech transcribe checkpoints/spoken-words-ctc recordings/ --format vtt --out subtitles
vitspeech transcribe checkpoints/spoken-words-attention recordings/ --out words.csv --beam 1 --ctc-weight 0
vitspeech transcribe checkpoints/spoken-words-ctc recordings/ --language-model words.arpa --language-weight 0.5
vitspeech transcribe runs/symbols-reverse/0 --symbols "3 1 4 1 5" "2 7 1 8" --picture reverse.png

A model that can be streamed (trained with CTC, with a limited look-ahead) takes recordings of any length, others up to
one minute. A recording that can't be read is reported and left out; the exit status is then 3. A table is moved to its
place when it is complete. Until then its rows are in FILE.partial, and --resume continues from there. For the
microphone use `vitspeech stream`.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vitspeech
from vitspeech import command_line
from vitspeech.errors import InputError
from vitspeech.files import write_text

if TYPE_CHECKING:
    from vitspeech.inference.transcript import Transcript

    Results = Callable[..., Iterator[tuple[Path, Transcript]]]

SUBTITLES = ("srt", "vtt")
COLUMNS = {"file": "", "unit": "", "start_s": ".3f", "end_s": ".3f", "status": ""}


def main(arguments: Sequence[str]) -> None:
    """Run `vitspeech transcribe`: one line per recording or sequence, a table, or subtitles; then figures."""
    options = parse(arguments)

    from vitspeech.inference.decode import check_search, with_default_beam
    from vitspeech.inference.transcribe import BATCH

    given = command_line.settings(options, "beam", "length_penalty", "ctc_weight")
    options.device = command_line.find_device(options.device)
    model = vitspeech.load(options.checkpoint, trust=options.trust).to(options.device)
    if options.symbols:
        check_search(model, None, given)
        print_symbols(model, options.symbols, given, options.picture)
        return
    search = vitspeech.Search(**given, **command_line.language_settings(options))
    search = with_default_beam(search, model.network, model.labels)
    check_search(model, search, given)
    if options.attention:
        from vitspeech.receptive.heads.utterance_figure import check_drawable, draw_utterance_attention

        check_drawable(model)
    results = partial(vitspeech.transcribe, model, options.paths, search=search, batch=BATCH, progress=True)
    if options.format:
        write_subtitles(results, options)
    elif options.out:
        write_table(results, model, search.settings(), options)
    else:
        print_transcripts(results, options)
    if options.picture:
        from vitspeech.plots.transcript import draw_transcript

        draw_transcript(model, Path(options.paths[0]), options.picture, search=search)
        print(options.picture)
    if options.attention:
        draw_utterance_attention(model, Path(options.paths[0]), options.attention, search=search)
        print(options.attention)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options, which are checked as far as that is possible without the model; `format` is `None` for text."""
    parser = command_line.parser("transcribe", __doc__)
    add = parser.add_argument
    add("checkpoint", help="folder of a released model or a finished run")
    add("paths", nargs="*", metavar="FILE_OR_FOLDER", help="recordings, or folders of them")
    add("--symbols", nargs="+", metavar="TEXT", help="sequences of symbols in place of recordings")
    add("--times", action="store_true", help="print when each word was spoken as well")
    add("--units", action="store_true", help="characters or pieces in --times and tables, for models with such units")
    form = "text (default), or subtitles: SubRip (srt) or WebVTT (vtt), on standard output for one recording, else in "
    form += "the folder --out: NAME.srt for each NAME.wav"
    add("--format", choices=["text", *SUBTITLES], default="text", help=form)
    command_line.add_table(parser, COLUMNS)
    add("--picture", type=Path, metavar="PNG", help="draw one recording with its transcript, or symbols")
    add("--attention", type=Path, metavar="PNG", help="draw what the encoder attends to in one recording")
    add("--beam", type=int, help="hypotheses (default 8; 1, which is greedy, for symbols and CTC over whole words)")
    add("--ctc-weight", type=float, help="weight of CTC in an encoder-decoder's search (default 0.7)")
    add("--length-penalty", type=float, help="exponent of the length in an encoder-decoder's search (default 0.6)")
    command_line.add_language_model(parser)
    command_line.add_device(parser)
    options = parser.parse_intermixed_args(arguments)
    options.format = None if options.format == "text" else options.format
    is_one = len(options.paths) == 1 and not Path(options.paths[0]).is_dir()

    def refuse(names: str, reason: str) -> None:
        for name in names.split():
            if getattr(options, name):
                parser.error(f"--{name.replace('_', '-')} {reason}")

    if bool(options.paths) == (options.symbols is not None):
        parser.error("give either recordings or --symbols")
    if options.units and not (options.times or options.out):
        parser.error("--units is for --times and tables (--out)")
    if options.symbols:
        refuse("times units format out resume attention language_model", "is for recordings")
    elif not is_one:
        refuse("picture attention", "draws one recording: give one, and no folder")
    if options.format:
        refuse("times units resume picture attention", "is for --format text")
        if not is_one and options.out is None:
            parser.error(f"--format {options.format} prints subtitles of one recording; name a folder for more: --out")
        check_subtitles(options.out, f".{options.format}", is_one)
    else:
        command_line.check_table(options, options.paths)
    for option, picture in (("--picture", options.picture), ("--attention", options.attention)):
        if picture is not None:
            command_line.check_file(picture, option, command_line.PICTURES)
            if not options.symbols:
                from vitspeech.plots.spectrogram import check_drawn

                check_drawn(options.paths[0], option)
    return options


def check_subtitles(out: Path | None, ending: str, is_one: bool) -> None:
    """Refuse a folder, or a file for one recording, that cannot be written later."""
    if out is not None and out.suffix.lower() not in (f".{name}" for name in SUBTITLES):
        command_line.check_folder(out, "--out")
    elif out is not None and (out.suffix.lower() != ending or not is_one):
        raise InputError(f"--out {out}: name a folder, or a file {ending} for one recording")
    else:
        command_line.check_file(out, "--out")


def print_symbols(
    model: "vitspeech.Model", texts: Sequence[str], given: dict[str, float], picture: Path | None
) -> None:
    """Print each sequence with its output, and draw what the decoder attends to."""
    transcripts = vitspeech.transcribe_symbols(model, texts, search=vitspeech.Search(**{"beam": 1} | given))
    for text, transcript in zip(texts, transcripts, strict=True):
        spaced = any(character.isspace() for character in text) or any(len(label) > 1 for label in model.labels)
        print(f"{text} -> {transcript.text if spaced else transcript.text.replace(' ', '')}")
    if picture:
        from vitspeech.inference.transcribe import read_symbols
        from vitspeech.plots.cross_attention import align_symbols, draw_alignments

        symbols = model.preprocessing["symbols"]
        pairs = zip([read_symbols(text, symbols) for text in texts], transcripts, strict=True)
        alignments = [align_symbols(model.network, symbols, model.labels, given, said.indices) for given, said in pairs]
        draw_alignments(alignments, picture)
        print(picture)


def print_transcripts(results: "Results", options: argparse.Namespace) -> None:
    """Print a line for each recording, and with `--times` one for each word."""
    from tqdm import tqdm

    unread = command_line.UnreadFiles("transcribe")
    for path, transcript in results(on_error=unread.add):
        lines = [f"{path}: {transcript.text}"]
        for said in (transcript.units if options.units else transcript.words) if options.times else ():
            lines.append(f"{said.start_s:8.2f} – {said.end_s:.2f} s  {said.label}")
        tqdm.write("\n".join(lines), file=sys.stdout)  # not into a progress bar
    unread.exit()


def write_table(
    results: "Results", model: "vitspeech.Model", search: dict[str, Any], options: argparse.Namespace
) -> None:
    """Write a row for each word or unit, or go on with such a table; `search` says how words are searched."""
    from vitspeech.inference.batches import write_results
    from vitspeech.inference.transcribe import BATCH

    settings = {"batch": BATCH, "resume": options.resume, "device": options.device.partition(":")[0]} | search
    rows_of = partial(table_rows, units=model.labels if options.units else ())
    table = (options.out, COLUMNS, rows_of, results, model, options.paths)
    write_results(*table, command="transcribe", rows="units" if options.units else "words", **settings).exit()


def table_rows(path: Path, transcript: "Transcript", units: Sequence[str]) -> list[tuple]:
    """One row per word, or per unit if the names of the units are given, with empty times if they are unknown.

    Without words there is one empty row.
    """
    if transcript.units:
        said = [(one.label, one.start_s, one.end_s) for one in (transcript.units if units else transcript.words)]
    else:
        names = [units[index] for index in transcript.indices] if units else transcript.text.split()
        said = [(name, None, None) for name in names]
    return [(path, *row, "ok") for row in said or [("", None, None)]]


def write_subtitles(results: "Results", options: argparse.Namespace) -> None:
    """Print the subtitles of one recording, or write a file for each and print its name.

    `--out` is a file, or a folder: of a recording in a folder that was named, the path inside of it is kept.
    """
    from tqdm import tqdm

    from vitspeech.inference.subtitles import to_subtitles

    unread, out, ending = command_line.UnreadFiles("transcribe"), options.out, f".{options.format}"
    written: dict[Path, Path] = {}
    for path, transcript in results(on_error=unread.add):
        try:
            content = to_subtitles(transcript, options.format)
            if out is None:
                print(content, end="")
                continue
            target = out if out.suffix.lower() == ending else out / inside(path, options.paths).with_suffix(ending)
            if target in written:
                raise InputError(f"{target} has the subtitles of {written[target]}; name another folder")
        except InputError as error:
            unread.add(path, error)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(content, target)
        written[target] = path
        tqdm.write(str(target), file=sys.stdout)  # not into a progress bar
    unread.exit()


def inside(path: Path, named: Sequence[str]) -> Path:
    """The path of a file inside the folder that the user named, or else its name."""
    within = (path.relative_to(name) for name in named if path != Path(name) and path.is_relative_to(name))
    return next((place for place in within if ".." not in place.parts), Path(path.name))
