"""Measure how often a keyword spotter misses its words, and how often it reports words that nobody said.

vitspeech spot MODEL --speech LibriSpeech/ --keywords SpeechCommands/speech_commands_v0.02/ -o report/
vitspeech spot MODEL --speech LibriSpeech/ --keywords recordings/ --sounds kitchen/ -o report/
vitspeech spot MODEL --keywords recordings/ -o report/ --split validation --clips 300

--keywords is a folder of one folder per word, as for training: the model's words, which are said one after another
with pauses, without noise and with noise at 20, 10 and 5 dB; other words test what the model does with words that it
does not know. --speech is a folder of recordings in LibriSpeech's layout or any other; detections of
words that the transcript has are not counted. The report folder gets report.html, det.png, summary.json, all
detections and words as CSV files, and the worst false alarms as sounds. docs/spotting.md states the protocol.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from vitspeech import command_line


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech spot`: prints the main numbers and the report's path."""
    parser = command_line.parser("spot", __doc__)
    parser.add_argument("model", metavar="MODEL", help="folder of a released keyword spotter or a finished run")
    parser.add_argument(
        "--keywords", type=Path, required=True, metavar="FOLDER", help="one folder of recordings per word"
    )
    parser.add_argument("--speech", type=Path, metavar="FOLDER", help="recordings of continuous speech")
    parser.add_argument("--sounds", type=Path, metavar="FOLDER", help="recordings without speech, all of them")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="folder of the report")
    parser.add_argument(
        "--split",
        choices=("test", "validation", "train", "all"),
        default="test",
        help="of words and speech (default test)",
    )
    parser.add_argument(
        "--hours", type=float, metavar="H", help="hear about H hours of speech, in whole recordings (default: all)"
    )
    parser.add_argument(
        "--clips", type=int, metavar="N", help="hear at most N keywords, and N other words (default: all)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order of words, pauses and noise (default 0)")
    command_line.add_trust(parser)
    options = parser.parse_args(arguments)
    command_line.check_folder(options.output)

    import torch

    import vitspeech
    from vitspeech.spotting.measure import Plan, measure
    from vitspeech.spotting.report import check_report_folder, main_lines, write_report

    check_report_folder(options.output)
    plan = Plan(
        options.keywords, options.speech, options.sounds, options.split, options.hours, options.clips, options.seed
    )
    start = time.perf_counter()
    torch.set_num_threads(1)  # the stream's parts are too small for more
    model = vitspeech.load(options.model, trust=options.trust)
    measurement = measure(model, plan)
    settings = measurement.listener.settings
    counts = measurement.counts(settings)
    summary = measurement.summary(counts, settings, model.card.get("name") or Path(options.model).resolve().name)
    page = write_report(measurement, counts, summary, options.output)
    print("\n".join(main_lines(summary)))
    factor = summary["real_time_factor"]
    print(f"{page} ({time.perf_counter() - start:.0f} s; real-time factor of the network {factor:.4f})")
