"""Choose the thresholds of a keyword spotter for a wanted rate of false alarms, and write them into its card.

vitspeech tune MODEL --alarms-per-hour 1 --speech LibriSpeech/ --keywords SpeechCommands/speech_commands_v0.02/
vitspeech tune MODEL --alarms-per-hour 0.5 --others 10 --speech LibriSpeech/ --keywords recordings/ --sounds kitchen/
vitspeech tune MODEL --alarms-per-hour 1 --speech LibriSpeech/ --keywords recordings/ --dry-run

Searches thresholds, and a small grid of the other settings (token probability, smoothing, minimum duration, pause,
refractory period), for the highest recall at which speech and sounds each stay below the wanted rate. Other words do
not count unless --others gives a rate for them. The words and the speech are of the validation split.
docs/spotting.md says how the rate is estimated. The command prints a table of operating points, and writes the
settings into card.json, where `stream` and `spot` find them.
"""

from collections.abc import Sequence
from pathlib import Path

from vitspeech import command_line


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech tune`: prints operating points and the chosen settings."""
    parser = command_line.parser("tune", __doc__)
    parser.add_argument("model", metavar="MODEL", help="folder of a released keyword spotter or a finished run")
    rate = "false alarms an hour of continuous speech, and of sounds"
    parser.add_argument("--alarms-per-hour", type=float, required=True, metavar="RATE", help=rate)
    parser.add_argument(
        "--keywords", type=Path, required=True, metavar="FOLDER", help="one folder of recordings per word"
    )
    parser.add_argument("--speech", type=Path, metavar="FOLDER", help="recordings of continuous speech")
    parser.add_argument("--sounds", type=Path, metavar="FOLDER", help="recordings without speech, all of them")
    parser.add_argument(
        "--others", type=float, metavar="RATE", help="false alarms an hour of other words (default: any)"
    )
    splits = ("validation", "train", "test", "all")
    parser.add_argument(
        "--split", choices=splits, default="validation", help="of words and speech (default validation)"
    )
    parser.add_argument(
        "--hours", type=float, metavar="H", help="hear about H hours of speech, in whole recordings (default: all)"
    )
    parser.add_argument(
        "--clips", type=int, metavar="N", help="hear at most N keywords, and N other words (default: all)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order of words, pauses and noise (default 0)")
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    command_line.add_trust(parser)
    options = parser.parse_args(arguments)

    import torch

    import vitspeech
    from vitspeech.spotting.measure import Plan, measure
    from vitspeech.spotting.tune import check_card, chosen, record, save_settings, table, tune, wanted_rates

    plan = Plan(
        options.keywords, options.speech, options.sounds, options.split, options.hours, options.clips, options.seed
    )
    wanted = wanted_rates(plan, options.alarms_per_hour, options.others)
    if not options.dry_run:
        check_card(options.model)
    torch.set_num_threads(1)  # the stream's parts are too small for more
    model = vitspeech.load(options.model, trust=options.trust)
    measurement = measure(model, plan, with_others=options.others is not None, every_word=True)
    tuned = tune(measurement, wanted)
    print("\n".join(table(tuned, wanted)))
    choice = record(tuned, measurement, wanted)
    for line in (*chosen(tuned, choice), *measurement.notes):
        print(line)
    if not options.dry_run:
        print(save_settings(options.model, tuned.settings, choice))
