"""Transcribe recordings, or sequences of symbols, with a CTC recognizer or an encoder-decoder.

vitspeech transcribe checkpoints/spoken-words-ctc talk.wav recordings/
vitspeech transcribe checkpoints/spoken-words-ctc talk.wav --times --picture talk.png
vitspeech transcribe checkpoints/spoken-words-ctc talk.wav --attention attention.png
vitspeech transcribe checkpoints/spoken-words-ctc talk.wav --format srt > talk.srt
vitspeech transcribe checkpoints/spoken-words-ctc recordings/ --format vtt --out subtitles
vitspeech transcribe checkpoints/spoken-words-attention recordings/ --out words.csv --beam 1 --ctc-weight 0
vitspeech transcribe checkpoints/spoken-words-ctc recordings/ --language-model words.arpa --language-weight 0.5
vitspeech transcribe checkpoints/spoken-words-ctc recordings/ --device cuda --out words.parquet --resume
vitspeech transcribe runs/symbols-reverse/0 --symbols "3 1 4 1 5" "2 7 1 8" --picture reverse.png

A model that can be streamed (trained with CTC, with a limited look-ahead) takes recordings of any length, others up to
one minute. A recording that can't be read is reported and left out; the exit status is then 3. A table is moved to its
place when it is complete. Until then its rows are in FILE.partial (FILE.parts for Parquet), and --resume continues from
there.
For the microphone use `vitspeech stream`.
"""

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from vitspeech import command_line
from vitspeech.errors import InputError
from vitspeech.files import check_target, replacing

if TYPE_CHECKING:
    from vitspeech.checkpoint import Model
    from vitspeech.inference.transcribe import Segment, Transcript

SUBTITLES = ("srt", "vtt")
COLUMNS = {"file": "", "unit": "", "start_s": ".3f", "end_s": ".3f", "status": ""}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech transcribe`: one line per recording, or a table."""
    parser = command_line.parser("transcribe", __doc__)
    parser.add_argument("checkpoint", help="folder of a released model or a finished run")
    parser.add_argument("paths", nargs="*", metavar="FILE_OR_FOLDER", help="recordings, or folders of them")
    symbols = "symbols in place of recordings, for a model of symbols; each TEXT is one sequence"
    parser.add_argument("--symbols", nargs="+", metavar="TEXT", help=symbols)
    parser.add_argument("--times", action="store_true", help="print when each word was spoken as well")
    units = "--times and tables give characters or pieces of words, if these are the model's units, in place of words"
    parser.add_argument("--units", action="store_true", help=units)
    form = "text (default), or subtitles: SubRip (srt) or WebVTT (vtt), on standard output for one recording, else in "
    form += "the folder --out: NAME.srt for each NAME.wav"
    parser.add_argument("--format", choices=["text", *SUBTITLES], default="text", help=form)
    command_line.add_table(parser, COLUMNS)
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw one recording with its transcript")
    attention = "draw what the encoder attends to in one recording"
    parser.add_argument("--attention", type=Path, metavar="PNG", help=attention)
    beam = "number of hypotheses in the beam (default 8; 1, which is greedy, for symbols and CTC over whole words)"
    parser.add_argument("--beam", type=int, help=beam)
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
    is_text, is_one = options.format == "text", len(options.paths) == 1 and not Path(options.paths[0]).is_dir()
    if options.symbols and (options.times or options.units or options.out or options.csv or options.resume):
        parser.error("--times, --units, --out, --csv and --resume are for recordings")
    if options.symbols and not is_text:
        parser.error("--format is for recordings")
    if options.attention and (options.symbols or not is_one):
        parser.error("--attention draws one recording: give one, and no folder")
    if options.picture and not options.symbols and not is_one:
        parser.error("--picture draws one file: give one, and no folder")
    language = command_line.language_settings(options)
    if language and options.symbols:
        parser.error("--language-model is for recordings")
    drawn = options.picture or options.attention
    if not is_text and (options.times or options.units or options.csv or options.resume or drawn):
        parser.error("--times, --units, --csv, --resume, --picture and --attention are for --format text")
    if not is_text and not is_one and options.out is None:
        parser.error(f"--format {options.format} prints the subtitles of one recording; name a folder for more: --out")
    table = command_line.find_table(options, options.paths) if is_text else None
    if not is_text and options.out is not None:
        check_subtitles(options.out, options.format, is_one)
    command_line.check_picture(options.picture, "--picture")
    command_line.check_picture(options.attention, "--attention")
    if drawn and not options.symbols:
        from vitspeech.plots.spectrogram import check_drawn

        check_drawn(options.paths[0], "--picture" if options.picture else "--attention")

    import vitspeech
    from vitspeech.inference.tables import open_results, stopped_at
    from vitspeech.inference.transcribe import BATCH, check_search, settle
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
    search = settle(vitspeech.Search(**given, **language), model.network, model.labels)
    check_search(model, search, given)
    if options.attention:
        check_drawable(model)
    results = partial(vitspeech.transcribe, model, options.paths, search=search, batch=BATCH, progress=True)
    if not is_text:
        unread = command_line.UnreadFiles("transcribe")
        write_subtitles(results(on_error=unread.add), unread, options.format, options.out, options.paths)
    elif table is None:
        unread = command_line.UnreadFiles("transcribe")
        for path, transcript in results(on_error=unread.add):
            lines = [f"{path}: {transcript.text}"]
            for said in timed(transcript, options.units) if options.times else ():
                lines.append(f"{said.start_s:8.2f} – {said.end_s:.2f} s  {said.label}")
            tqdm.write("\n".join(lines), file=sys.stdout)  # not into a progress bar
    else:
        settings = {"command": "transcribe", "device": device.partition(":")[0]} | search.settings()
        settings["rows"] = "units" if options.units else "words"
        options_of_table = {"batch": BATCH, "resume": options.resume} | settings
        with open_results(table, COLUMNS, model, options.paths, **options_of_table) as rows:
            unread = command_line.UnreadFiles("transcribe", rows)
            for path, transcript in results(on_error=unread.add, after=stopped_at(rows)):
                rows.add(path, table_rows(path, transcript, model.labels if options.units else ()))
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


def timed(transcript: "Transcript", units: bool) -> "tuple[Segment, ...]":
    """The words with their times, or the units."""
    return transcript.units if units else transcript.words


def table_rows(path: Path, transcript: "Transcript", units: Sequence[str]) -> list[tuple]:
    """One row per word, or per unit if the names of the units are given, with empty times if they are unknown.

    Without words there is one empty row.
    """
    if transcript.units:
        said = timed(transcript, bool(units))
        return [(path, one.label, one.start_s, one.end_s, "ok") for one in said] or [(path, "", None, None, "ok")]
    said = [units[index] for index in transcript.indices] if units else transcript.text.split()
    return [(path, name, None, None, "ok") for name in said or [""]]


def check_subtitles(out: Path, form: str, is_one: bool) -> None:
    """Refuse a folder, or a file for one recording, that cannot be written later."""
    if out.suffix.lower() not in (f".{name}" for name in SUBTITLES):
        command_line.check_folder(out, "--out")
    elif out.suffix.lower() != f".{form}" or not is_one:
        raise InputError(f"--out {out}: name a folder, or a file .{form} for one recording")
    else:
        check_target(out, "--out")


def write_subtitles(
    results: "Iterable[tuple[Path, Transcript]]",
    unread: command_line.UnreadFiles,
    form: str,
    out: Path | None,
    named: Sequence[str],
) -> None:
    """Print the subtitles of one recording, or write a file for each and print its name.

    Args:
        results: The recordings with their transcripts.
        unread: Reports recordings without subtitles.
        form: `srt` or `vtt`.
        out: A file, or a folder: of a recording in a folder that was named, the path inside of it is kept. `None`
            prints.
        named: The files and folders that the user named.
    """
    from vitspeech.inference.subtitles import to_subtitles

    written: dict[Path, Path] = {}
    for path, transcript in results:
        try:
            content = to_subtitles(transcript, form)
        except InputError as error:
            unread.add(path, error)
            continue
        if out is None:
            print(content, end="")
            continue
        target = out if out.suffix.lower() == f".{form}" else out / inside(path, named).with_suffix(f".{form}")
        if target in written:
            unread.add(path, InputError(f"{target} has the subtitles of {written[target]}; name another folder"))
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as draft:
            draft.write_text(content, encoding="utf-8")
        written[target] = path
        tqdm.write(str(target), file=sys.stdout)  # not into a progress bar


def inside(path: Path, named: Sequence[str]) -> Path:
    """The path of a file inside the folder that the user named, or else its name."""
    within = (path.relative_to(name) for name in named if path != Path(name) and path.is_relative_to(name))
    return next((place for place in within if ".." not in place.parts), Path(path.name))
