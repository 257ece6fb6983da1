"""Transcribe recordings of up to one minute with a CTC recognizer or an encoder-decoder.

vitspeech transcribe checkpoints/spoken-words-ctc talk.wav recordings/
vitspeech transcribe checkpoints/spoken-words-ctc talk.wav --times --picture talk.png
vitspeech transcribe checkpoints/spoken-words-attention recordings/ --csv words.csv --beam 1 --ctc-weight 0

A recording that can't be read is reported and left out; the exit status is then 3.
For recordings of any length and for the microphone use `vitspeech stream`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vitspeech import command_line

if TYPE_CHECKING:
    from vitspeech.inference.transcribe import Transcript


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech transcribe`: one line per recording, or a CSV table."""
    parser = command_line.parser("transcribe", __doc__)
    parser.add_argument("checkpoint", help="folder of a released model or a finished run")
    parser.add_argument("paths", nargs="+", metavar="FILE_OR_FOLDER", help="recordings, or folders of them")
    parser.add_argument("--times", action="store_true", help="print when each word (or character) was spoken as well")
    parser.add_argument("--csv", type=Path, help="write a table instead: file, unit, start_s, end_s, status")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw one recording with its transcript")
    parser.add_argument("--beam", type=int, help="number of hypotheses in the beam; 1 is greedy (default 8)")
    weight = "weight of CTC in an encoder-decoder's search (default 0.7)"
    parser.add_argument("--ctc-weight", type=float, help=weight)
    penalty = "exponent of the length by which an encoder-decoder's scores are divided (default 0.6)"
    parser.add_argument("--length-penalty", type=float, help=penalty)
    command_line.add_trust(parser)
    options = parser.parse_args(arguments)
    if options.picture and (len(options.paths) > 1 or Path(options.paths[0]).is_dir()):
        parser.error("--picture draws one file: give one, and no folder")
    command_line.check_table(options.csv, options.paths)
    command_line.check_picture(options.picture, "--picture")

    import vitspeech
    from vitspeech.data.files import write_csv
    from vitspeech.plots.transcript import draw_transcript

    settings = {name: getattr(options, name) for name in ("beam", "length_penalty", "ctc_weight")}
    search = vitspeech.Search(**{name: value for name, value in settings.items() if value is not None})
    model = vitspeech.load(options.checkpoint, trust=options.trust)
    # Lines on a terminal show progress by themselves.
    progress = options.csv is not None or not sys.stdout.isatty()
    columns = ["file", "unit", "start_s", "end_s", "status"]
    unread = command_line.UnreadFiles("transcribe", options.csv, columns)
    for path, transcript in vitspeech.transcribe(
        model, options.paths, search=search, on_error=unread.add, progress=progress
    ):
        if options.csv is None:
            print(f"{path}: {transcript.text}")
            for unit in transcript.units if options.times else ():
                print(f"{unit.start_s:8.2f} – {unit.end_s:.2f} s  {unit.label}")
        else:
            unread.rows += table_rows(path, transcript)
    if options.csv is not None:
        write_csv(options.csv, columns, unread.rows)
        print(options.csv)
    unread.exit()
    if options.picture:
        draw_transcript(model, Path(options.paths[0]), options.picture, search=search)
        print(options.picture)


def table_rows(path: Path, transcript: "Transcript") -> list[tuple]:
    """One row per unit, or per word with empty times if the times are unknown; an empty row if there are no words."""
    if transcript.units:
        return [(path, unit.label, f"{unit.start_s:.3f}", f"{unit.end_s:.3f}", "ok") for unit in transcript.units]
    return [(path, word, "", "", "ok") for word in transcript.text.split() or [""]]
