"""The report of a measurement: a self-contained page, its figures, and the worst false alarms to hear.

`FILES` has every file of a report; docs/spotting.md describes them. From the three tables anybody can compute the curve
again.
"""

import base64
import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy
import soundfile
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, PercentFormatter
from torch import Tensor
from tqdm import tqdm

from vitspeech.data.audio.continuous import occurrences
from vitspeech.errors import InputError
from vitspeech.files import write_csv, write_text
from vitspeech.frontends.log_mel import LogMel
from vitspeech.plots.style import BLACK, EMPTY_GRAY, HIGHLIGHT_GRAY, SPECTROGRAM, plain, series_styles
from vitspeech.spotting.counts import Counts
from vitspeech.spotting.listening import ALARM, Candidate, Heard, noise_name, samples_again
from vitspeech.spotting.measure import Measurement, percent, rate_text
from vitspeech.spotting.streams import KEYWORDS, NAMES, OTHERS, SOUNDS, SPEECH

PAGE, JSON, DET, ALARMS = "report.html", "summary.json", "det.png", "alarms"
STREAM = ("condition", "noise", "stream")  # the columns that name a stream
DETECTION_COLUMNS = "recording speaker label probability start_s end_s decided_s status word".split()
TABLES = {
    "detections.csv": (*STREAM, *DETECTION_COLUMNS),
    "words.csv": (*STREAM, "word", "label", "speaker", "clip", "start_s", "end_s"),
    "recordings.csv": (*STREAM, "recording", "speaker", "start_s", "end_s", "contains"),
}
FILES = {PAGE, JSON, DET, ALARMS, *TABLES}
WORST = 10  # false alarms with sounds in each condition
MARGIN_S = 0.6  # of audio before and after
CAPTIONS = {
    "words": "False alarms per hour and misses at the model's own thresholds, with 95 % intervals: Poisson (Garwood "
    "1936) for alarms, bootstrap over speakers for misses (Wilson 1927 if there are fewer "
    "than five speakers, or no word or every word is missed). Of words in sentences, the number that is reported at "
    "most.",
    "reached": "The fewest misses at up to so many false alarms per hour, when all thresholds are shifted alike. At "
    "rates below one alarm in all hours heard, it is what is missed without any alarm.",
    "curve": "All thresholds are raised and lowered together, by the same amount in logits. The markers are the "
    "model's own thresholds, with 95 % intervals. In the gray area a rate can't be told from 0: no alarm in so many "
    "hours bounds it below the border. An arrow is the fewest misses without any alarm. Misses below 0.2 % are drawn "
    "at 0.2 %.",
    "alarms": "The alarms of the highest probability, also below the thresholds. The dashed lines are the span of the "
    "detection. The text is what was said: the transcript of the whole utterance, or the other word.",
}
DPI = 110
COLUMNS = 4  # of the panels of single words
LEAST_MISSES = 0.002  # of the axis; fewer are drawn here
Table = list[list[str]]  # rows of cells, the header first


def check_report_folder(folder: Path) -> None:
    """Refuse a folder with files of somebody else, which the report's files would be mixed with."""
    names = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    if others := sorted(names - FILES) or sorted(names if JSON not in names else ()):
        raise InputError(f"-o {folder}: has other files ({others[0]}); name a new folder or one with an earlier report")


def write_report(
    measurement: Measurement, counts: Counts, summary: Mapping[str, Any], folder: Path, worst: int = WORST
) -> Path:
    """Write the report into a folder, in place of an earlier one, and return the path of the page.

    The numbers are from `Measurement.summary`; of each condition, the `worst` false alarms have sounds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(compact(summary) + "\n", folder / JSON)  # first: it tells that the folder is a report
    (folder / ALARMS).mkdir(exist_ok=True)
    for file in (file for condition in NAMES for file in (folder / ALARMS).glob(f"{condition}-[0-9][0-9]*-*.wav")):
        file.unlink()
    for (name, columns), rows in zip(
        TABLES.items(), (detection_rows(counts), word_rows(counts), recording_rows(counts)), strict=True
    ):
        write_csv(folder / name, columns, rows)
    (folder / DET).unlink(missing_ok=True)
    det = draw_det(summary) if counts.levels and counts.conditions else None
    if det:
        (folder / DET).write_bytes(det)
    alarms = list(tqdm(worst_alarms(measurement, counts, worst), "alarms", disable=None, leave=False))
    for number, alarm in enumerate(alarms):
        label = "".join(c if c.isalnum() else "-" for c in alarm.candidate.detection.label)[:40]
        alarm.file = f"{alarm.condition}-{number:02}-{label}.wav"
        (folder / ALARMS / alarm.file).write_bytes(alarm.wav)
    environment = jinja2.Environment(loader=jinja2.PackageLoader("vitspeech.spotting", "."), autoescape=True)
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
    origin = summary["provenance"]
    page = environment.get_template("report.html.jinja").render(
        model=summary["model"],
        captions=CAPTIONS,
        facts=facts(summary),
        tables={"words": main_table(summary)} | ({"reached": reached_table(summary)} if det else {}),
        thresholds=summary["operating_point"]["thresholds"],
        det=det,
        alt=alt_text(summary) if det else "",
        alarms={NAMES[name]: [each for each in alarms if each.condition == name] for name in counts.conditions},
        origin=[origin["commit"], origin["hardware"], *(" ".join(pair) for pair in origin["versions"].items())],
    )
    write_text(page, folder / PAGE)
    return folder / PAGE


def compact(summary: Mapping[str, Any]) -> str:
    """The summary as JSON, with one line for each point of the curve."""
    rest = json.dumps({key: value for key, value in summary.items() if key != "curve"}, indent=1, allow_nan=False)
    rows = ",\n  ".join(json.dumps(row, allow_nan=False) for row in summary["curve"])
    return f'{rest[:-2]},\n "curve": [\n  {rows}\n ]\n}}'


def main_table(summary: Mapping[str, Any]) -> Table:
    """The main numbers: every word, and all words in the last row, at the model's own thresholds."""
    point = summary["operating_point"]
    conditions, levels, inside = point["all"]["alarms"], point["all"]["misses"], point["inside_sentences"]
    header = ["word", "threshold", *(f"false alarms per hour, {NAMES[name]}" for name in conditions)]
    header += [f"missed, {name}" for name in levels] + ["in sentences"] * bool(inside)
    rows = [header]
    for word, values in [*point["words"].items(), (None, point["all"])]:
        row = ["all", ""] if word is None else [word, f"{point['thresholds'][word]:.4g}"]
        row += [rate_text(values["alarms"][name]) for name in conditions]
        row += [percent(values["misses"][name]) for name in levels]
        if inside:
            row.append("{reported:,} of {said:,}".format_map(inside["all"] if word is None else inside["words"][word]))
        rows.append(row)
    return rows


def reached_table(summary: Mapping[str, Any]) -> Table:
    """The fewest misses at some rates of alarms."""
    rows: Table = []
    for condition, levels in summary["reached"].items():
        for level, values in levels.items():
            misses = values["misses_at_alarms_per_hour"]
            rows = rows or [["alarms in; keywords with noise", *(f"{rate} per hour" for rate in misses)]]
            cells = ("–" if miss is None else f"{100 * miss:.1f} %" for miss in misses.values())
            rows.append([f"{NAMES[condition]}; {level}", *cells])
    return rows


def main_lines(summary: Mapping[str, Any]) -> list[str]:
    """The numbers of all words, and the facts, one in a line."""
    header, *_, total = main_table(summary)
    named = zip(header, total, strict=True)
    return [*(f"{name}: {cell}" for name, cell in named if name not in ("word", "threshold")), *facts(summary)]


def facts(summary: Mapping[str, Any]) -> list[str]:
    """What was heard, and what the tables don't have."""
    point, lines = summary["operating_point"], []
    for name, there in summary["conditions"].items():
        units = ["streams"] if name == SOUNDS else ["words", "recordings", "speakers"]
        amounts = (f"{there[unit]:,} {unit}" for unit in units if unit in there)
        lines.append(f"{NAMES[name]}: {', '.join(amounts)}, {there['hours']:.2f} h")
    if (other := summary["other_words"]) and other["by_card"]:
        for kind, name in (("heard", "with"), ("unheard", "without")):
            if (part := other["by_card"][kind])["words"]:
                lines.append(f"{part['alarms']} alarms in {part['words']:,} other words {name} recordings in training")
    if point["delay_s"]:
        middle, high = (1000 * point["delay_s"][name] for name in ("median", "90_percent_below"))
        lines.append(f"delay after the end of a word: {middle:.0f} ms (median; 90 % within {high:.0f} ms)")
    if KEYWORDS in summary["conditions"]:
        extra = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in point["extra_detections"].items())
        lines.append(f"detections beyond the first of each keyword: {extra}")
    settings = ", ".join(f"{name} {value}" for name, value in summary["settings"].items())
    plan = summary["plan"]
    return [
        *lines,
        f"split: {plan['split']}; seed: {plan['seed']}; settings of the decoder: {settings}",
        *summary["notes"],
    ]


def alt_text(summary: Mapping[str, Any]) -> str:
    """The curve in words."""
    parts = []
    for condition, levels in summary["reached"].items():
        level, values = next(iter(levels.items()))
        miss = values["misses_at_alarms_per_hour"]["10"]
        text = "not reached" if miss is None else f"{100 * miss:.0f} % misses"
        parts.append(f"{NAMES[condition]}, {level}: {text} at 10 false alarms per hour")
    return "Curves of misses against false alarms per hour. " + "; ".join(parts) + "."


def stream_cells(item: Heard) -> tuple[str, str, str]:
    """The cells that name a stream."""
    return item.stream.condition, noise_name(item.stream.snr_db), item.stream.name


def detection_rows(counts: Counts) -> Iterator[tuple]:
    """One row per candidate, detected or not."""
    for candidate in counts.candidates:
        item, found = counts.heard[candidate.stream], candidate.detection
        recording = item.stream.recordings[candidate.recording]
        times = (round(time, 6) for time in (found.start_s, found.end_s, found.decided_s))
        word = "" if candidate.word < 0 else candidate.word
        whose = (recording.name, recording.speaker, found.label, found.probability)
        yield *stream_cells(item), *whose, *times, candidate.status, word


def word_rows(counts: Counts) -> Iterator[tuple]:
    """One row per word of the composed streams, numbered within its stream."""
    for item in counts.heard:
        for number, word in enumerate(item.stream.words):
            yield *stream_cells(item), number, word.label, word.speaker, word.clip, word.start_s, word.end_s


def recording_rows(counts: Counts) -> Iterator[tuple]:
    """One row per recording, with the model's words that its transcript has, joined by `|`."""
    for item in counts.heard:
        for part in item.stream.recordings:
            is_speech = item.stream.condition == SPEECH
            said = "|".join(word for word in counts.words if is_speech and occurrences(part.words, word))
            yield *stream_cells(item), part.name, part.speaker, part.start_s, part.end_s, said


@dataclass
class Alarm:
    """A false alarm, its sound and its spectrogram."""

    candidate: Candidate
    condition: str
    place: str  # the recording that it was heard in, and when; of other words the clip
    said: str  # the transcript, or the word; empty if that is not known
    wav: bytes
    png: bytes
    file: str = ""  # name of the sound


def worst_alarms(measurement: Measurement, counts: Counts, count: int) -> Iterator[Alarm]:
    """The false alarms of the highest probability in each condition, also of those below the thresholds."""
    alarms = [item for item in counts.candidates if item.status == ALARM]
    alarms.sort(key=lambda item: -item.detection.probability)
    for condition in counts.conditions:
        there = [item for item in alarms if counts.heard[item.stream].stream.condition == condition]
        for candidate in there[:count]:
            yield cut(measurement, counts.heard[candidate.stream], candidate)


def cut(measurement: Measurement, heard: Heard, candidate: Candidate) -> Alarm:
    """The audio around a detection."""
    listener, found = measurement.listener, candidate.detection
    rate_hz, log_mel = listener.sample_rate_hz, listener.model.network.tokens.log_mel
    stream, recording = heard.stream, heard.stream.recordings[candidate.recording]
    first_s = max(found.start_s - MARGIN_S, 0.0)
    part = slice(round(first_s * rate_hz), round((found.end_s + MARGIN_S) * rate_hz))
    samples = samples_again(heard, rate_hz)[part].clone()  # a view would keep the stream in memory
    said, place = " ".join(recording.words or ()), f"{recording.name} at {found.start_s - recording.start_s:.1f} s"
    if stream.condition == OTHERS:
        word = stream.words[candidate.word] if candidate.word >= 0 else None
        said, place = (word.label, word.clip) if word else ("", place)
    png = draw_alarm(log_mel, samples, found.start_s - first_s, found.end_s - first_s, found.label)
    wav = io.BytesIO()
    soundfile.write(wav, samples.numpy(), rate_hz, format="WAV", subtype="PCM_16")
    return Alarm(candidate, stream.condition, place, said, wav.getvalue(), png)


def draw_det(summary: Mapping[str, Any]) -> bytes:
    """A PNG of misses against false alarms per hour: a panel of all words for each condition, then one for each word.

    A curve is drawn solid down to its last alarm. Without an alarm the rate is not 0 but below a bound, so the rest of
    the curve is one dashed line at the bound of the 95 % interval, and the area beyond it is gray.
    """
    conditions = [name for name in summary["conditions"] if name != KEYWORDS]
    words = list(summary["operating_point"]["words"])
    rows = math.ceil(len(words) / COLUMNS)
    figure = Figure(figsize=(12, 4.6 + 2.7 * rows), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[4.2, 2.7 * rows])
    for axes, condition in zip(numpy.atleast_1d(top.subplots(1, len(conditions))), conditions, strict=True):
        draw_panel(axes, summary, condition, None)
        axes.set_title(f"all words; {NAMES[condition]}, {summary['conditions'][condition]['hours']:.2f} h")
        axes.set_xlabel("false alarms per hour")
        axes.set_ylabel("misses")
    levels = summary["operating_point"]["all"]["misses"]
    labels = ["no noise" if level == "clean" else f"noise at {level}" for level in levels]
    handles = [
        Line2D([], [], color=style.color, linestyle=style.dashes, marker=style.marker, label=label)
        for label, style in zip(labels, series_styles(len(labels)), strict=True)
    ]
    top.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9)
    grid = numpy.atleast_1d(bottom.subplots(rows, COLUMNS, sharex=True, sharey=True)).ravel()
    for axes, word in zip(grid, words, strict=False):
        draw_panel(axes, summary, conditions[0], word)
        axes.set_title(plain(word), fontsize=10)
    for axes in grid[len(words) :]:
        axes.set_axis_off()
    bottom.supxlabel(f"false alarms per hour of {NAMES[conditions[0]]}", fontsize=10)
    bottom.supylabel("misses", fontsize=10)
    return as_png(figure)


def draw_panel(axes: Axes, summary: Mapping[str, Any], condition: str, word: str | None) -> None:
    """One panel: a curve for each noise level, and the operating point with its intervals."""
    point = summary["operating_point"]
    own = point["all"] if word is None else point["words"][word]
    rows = [row["all"] if word is None else row["words"][word] for row in summary["curve"]]
    hours = min((row["alarms"][condition]["hours"] for row in rows if row["alarms"][condition]["hours"]), default=0)
    axes.set(xscale="log", yscale="log")
    if not hours:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center")
        return
    bound = -math.log(0.025) / hours
    axes.axvspan(1e-6, bound, color=HIGHLIGHT_GRAY, zorder=0)
    largest = bound
    for (level, miss), style in zip(own["misses"].items(), series_styles(len(own["misses"])), strict=True):
        if miss["rate"] is None:
            continue
        pairs = [(row["alarms"][condition], row["misses"][level]["rate"]) for row in rows]
        seen = [(rate["per_hour"], max(value, LEAST_MISSES)) for rate, value in pairs if rate["alarms"]]
        unseen = [max(value, LEAST_MISSES) for rate, value in pairs if not rate["alarms"]]
        if seen:
            axes.plot(*zip(*seen, strict=True), color=style.color, linestyle=style.dashes, drawstyle="steps-pre")
            largest = max(largest, seen[0][0])
        if unseen:
            axes.plot([bound, bound], [min(unseen), 1.0], color=style.color, linestyle=":", linewidth=1)
            axes.plot([bound], [min(unseen)], color=style.color, marker="<", markersize=5, markerfacecolor="white")
        draw_point(axes, own["alarms"][condition], miss, bound, style)
    axes.set_xlim(bound / 12, max(2 * largest, 10 * bound))
    axes.set_ylim(LEAST_MISSES * 0.8, 1.1)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    axes.grid(alpha=0.3, which="major")


def draw_point(axes: Axes, alarms: dict[str, Any], miss: dict[str, Any], bound: float, style: Any) -> None:
    """The operating point with the 95 % intervals of both rates."""
    x, y = (alarms["per_hour"] or bound), max(miss["rate"], LEAST_MISSES)
    low, high = miss.get("interval_95") or (miss["rate"], miss["rate"])
    left, right = max(alarms["low"], 1e-6), alarms["high"]
    errors = [[max(x - left, 0)], [max(right - x, 0)]], [[y - max(min(low, y), LEAST_MISSES)], [max(high - y, 0)]]
    look = {"color": style.color, "marker": style.marker, "markersize": 5, "markeredgecolor": BLACK}
    axes.errorbar([x], [y], xerr=errors[0], yerr=errors[1], ecolor=EMPTY_GRAY, capsize=2, zorder=5, **look)


def draw_alarm(log_mel: LogMel, samples: Tensor, start_s: float, end_s: float, label: str) -> bytes:
    """The spectrogram of a cut, int16 (N,), with the alarm's span between two lines: a PNG."""
    figure = Figure(figsize=(3.4, 1.5), layout="constrained")
    axes = figure.subplots()
    energies = log_mel.log_energies(samples[None] / 32768)[0].T.cpu().numpy()
    seconds = len(samples) / log_mel.sample_rate_hz
    floor = energies.max() - 9  # nats: 40 dB
    axes.imshow(energies, cmap=SPECTROGRAM, aspect="auto", origin="lower", extent=(0, seconds, 0, 1), vmin=floor)
    for time in (start_s, end_s):
        axes.axvline(time, color="white", linestyle="--", linewidth=1)
    axes.set_yticks([])
    axes.set_xlabel("s", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.set_title(plain(label), fontsize=9)
    return as_png(figure)


def as_png(figure: Figure) -> bytes:
    """A figure as a file."""
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=DPI)
    return png.getvalue()
