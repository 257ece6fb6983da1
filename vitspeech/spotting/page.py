"""The report: a self-contained page, the curve, all detections, and the worst false alarms as sounds."""

import base64
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import soundfile
from torch import Tensor
from tqdm import tqdm

from vitspeech.errors import InputError
from vitspeech.files import write_text
from vitspeech.spotting.counts import Counts
from vitspeech.spotting.figures import DPI, draw_alarm, draw_det
from vitspeech.spotting.measure import Measurement
from vitspeech.spotting.sentences import ELSEWHERE, alt_text, main_table, protocol, sentences, word_table
from vitspeech.spotting.tables import DETECTIONS, RECORDINGS, WORDS, write_tables
from vitspeech.spotting.worst import WORST, Alarm, worst_alarms

PAGE, JSON, DET, ALARMS = "report.html", "summary.json", "det.png", "alarms"
FILES = {PAGE, JSON, DET, ALARMS, DETECTIONS, WORDS, RECORDINGS}
TITLES = {"speech": "In continuous speech", "others": "In other words", "sounds": "In sounds"}


def check_report_folder(folder: Path) -> None:
    """Refuse a folder with files of somebody else, which the report's files would be mixed with.

    Raises:
        InputError: If it has a file that no report has, or is no report.
    """
    names = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    if others := sorted(names - FILES) or sorted(names if JSON not in names else ()):
        raise InputError(f"-o {folder}: has other files ({others[0]}); name a new folder or one with an earlier report")


def write_report(
    measurement: Measurement, counts: Counts, summary: Mapping[str, Any], folder: Path, worst: int = WORST
) -> Path:
    """Write the report.

    Args:
        measurement: What was heard.
        counts: Its counts.
        summary: The numbers, with `model`, `plan`, `provenance`.
        folder: Created if it is missing; files of an earlier report are replaced.
        worst: The number of false alarms with sounds in each condition.

    Returns:
        The path of the page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(compact(summary) + "\n", folder / JSON)  # first: it tells that the folder is a report
    (folder / ALARMS).mkdir(exist_ok=True)
    for file in (file for condition in TITLES for file in (folder / ALARMS).glob(f"{condition}-[0-9][0-9]*-*.wav")):
        file.unlink()
    write_tables(counts, folder)
    drawing = io.BytesIO()
    draw_det(summary).savefig(drawing, format="png", dpi=DPI)
    (folder / DET).write_bytes(drawing.getvalue())
    rate_hz = measurement.listener.sample_rate_hz
    alarms = list(tqdm(worst_alarms(counts, rate_hz, worst), "alarms", leave=False))
    entries = [alarm_entry(alarm, number, measurement, summary, folder) for number, alarm in enumerate(alarms)]
    groups = [
        {
            "title": TITLES[condition],
            "alarms": [entry for entry, alarm in zip(entries, alarms, strict=True) if alarm.condition == condition],
        }
        for condition in counts.conditions
    ]
    loader = jinja2.PackageLoader("vitspeech.spotting", ".")
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("report.html.jinja")
    origin = summary["provenance"]
    versions = ", ".join(f"{name} {version}" for name, version in origin["versions"].items())
    page = template.render(
        title=f"False alarms and misses of {summary['model']}",
        sentences=sentences(summary),
        tables=[main_table(summary), word_table(summary)],
        alt=alt_text(summary),
        det=encoded(drawing.getvalue()),
        alarms=[group for group in groups if group["alarms"]],
        protocol=protocol(summary),
        elsewhere=ELSEWHERE,
        provenance=f"Commit {origin['commit']}, {origin['hardware']}, {versions}.",
    )
    write_text(page, folder / PAGE)
    return folder / PAGE


def alarm_entry(
    alarm: Alarm, number: int, measurement: Measurement, summary: Mapping[str, Any], folder: Path
) -> dict[str, str]:
    """Write the sound of an alarm, and return what the page shows of it."""
    listener, found = measurement.listener, alarm.candidate.detection
    threshold = summary["operating_point"]["thresholds"][found.label]
    wav = as_wav(alarm.samples, listener.sample_rate_hz)
    name = f"{alarm.condition}-{number:02}-{file_name(found.label)}.wav"
    (folder / ALARMS / name).write_bytes(wav)
    log_mel = listener.model.network.tokens.log_mel
    png = draw_alarm(log_mel, alarm.samples, alarm.start_s, alarm.end_s, found.label)
    return {
        "label": found.label,
        "probability": f"{found.probability:.4f}",
        "below": "" if found.probability >= threshold else f", below the threshold {threshold:.4g}",
        "said": f"“{alarm.said}”" if alarm.said else "no transcript",
        "place": alarm.place,
        "file": name,
        "png": encoded(png),
        "wav": encoded(wav),
    }


def compact(summary: Mapping[str, Any]) -> str:
    """The summary as JSON, with one line for each point of the curve."""
    rest = json.dumps({key: value for key, value in summary.items() if key != "curve"}, indent=1, allow_nan=False)
    rows = ",\n  ".join(json.dumps(row, allow_nan=False) for row in summary["curve"])
    return f'{rest[:-2]},\n "curve": [\n  {rows}\n ]\n}}'


def as_wav(samples: Tensor, rate_hz: int) -> bytes:
    """int16 samples (N,) as a WAV file."""
    file = io.BytesIO()
    soundfile.write(file, samples.numpy(), rate_hz, format="WAV", subtype="PCM_16")
    return file.getvalue()


def file_name(label: str) -> str:
    """A label as a part of a file's name."""
    return "".join(character if character.isalnum() else "-" for character in label)[:40]


def encoded(content: bytes) -> str:
    """Bytes in base64."""
    return base64.b64encode(content).decode()
