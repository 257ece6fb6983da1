#!/usr/bin/env python3
"""Write down what is said in recordings of up to a minute, with a recognizer (CTC) or an encoder-decoder.

transcribe.py checkpoints/spoken-words-ctc talk.wav recordings/
transcribe.py checkpoints/spoken-words-ctc talk.wav --times --picture talk.png
transcribe.py checkpoints/spoken-words-attention recordings/ --csv words.csv --beam 1 --ctc-weight 0

scripts/stream.py takes recordings of any length, and the microphone.
"""

import argparse
import sys
from pathlib import Path

import vitspeech
from vitspeech import command_line
from vitspeech.data.files import write_csv
from vitspeech.inference.transcribe import Transcript
from vitspeech.plots.transcript import draw_transcript


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder of a released model, or of a finished run")
    parser.add_argument("paths", nargs="+", metavar="FILE_OR_FOLDER", help="recordings, or folders of them")
    parser.add_argument("--times", action="store_true", help="when each word (or character) was said, too")
    parser.add_argument("--csv", type=Path, help="write file, unit, start_s, end_s there instead of printing")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw one recording and what is heard in it")
    parser.add_argument(
        "--beam",
        type=int,
        default=vitspeech.Search.beam,
        help="hypotheses that are gone on with; 1 is greedy (%(default)s)",
    )
    parser.add_argument(
        "--ctc-weight",
        type=float,
        default=vitspeech.Search.ctc_weight,
        help="CTC's share in an encoder-decoder's search (default %(default)s)",
    )
    parser.add_argument(
        "--length-penalty",
        type=float,
        default=vitspeech.Search.length_penalty,
        help="exponent of the length that scores are divided by (%(default)s)",
    )
    arguments = parser.parse_args()
    if arguments.picture and (len(arguments.paths) > 1 or Path(arguments.paths[0]).is_dir()):
        parser.error("--picture draws one file: give one, and no folder")
    search = vitspeech.Search(arguments.beam, arguments.length_penalty, arguments.ctc_weight)

    model = vitspeech.load(arguments.checkpoint)
    # Lines on a terminal are progress enough; a bar among them would only be in their way.
    bar = arguments.csv is not None or not sys.stdout.isatty()
    found = vitspeech.transcribe(model, arguments.paths, search=search, progress=bar)
    if arguments.csv is not None:
        rows = (row for path, transcript in found for row in rows_of(path, transcript))
        write_csv(arguments.csv, ["file", "unit", "start_s", "end_s"], rows)
        print(arguments.csv)
    else:
        for path, transcript in found:
            print(f"{path}: {transcript.text}")
            for said in transcript.units if arguments.times else ():
                print(f"{said.start_s:8.2f} – {said.end_s:.2f} s  {said.label}")
    if arguments.picture:
        draw_transcript(model, Path(arguments.paths[0]), arguments.picture, search=search)
        print(arguments.picture)


def rows_of(path: Path, transcript: Transcript) -> list[tuple]:
    """A row for each unit; of a transcript without times one for each word, its times empty."""
    if not transcript.units:
        return [(path, word, "", "") for word in transcript.text.split()]
    return [(path, said.label, f"{said.start_s:.3f}", f"{said.end_s:.3f}") for said in transcript.units]


if __name__ == "__main__":
    command_line.run(main)
