"""Audio files of any format that libsndfile reads, from the first sample to the last.

Of files that were joined (`cat a.ogg b.ogg`; Icecast and recorders write such files) libsndfile reads the first one. It
takes the length of an MP3 without a header from its first frame, and knows none if the length is not stated, as pipes
and live encoders leave it. So the parts of a file are found here: by the pages of Ogg, the frames of MP3, and the first
bytes of other formats. Each is then opened as a file of its own.

This file needs numpy, soundfile and `levels.py` alone: `vitspeech export` copies it into the folders that it writes.

Shapes: N samples, C channels.
"""

import io
import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy
from soundfile import LibsndfileError, SoundFile

from vitspeech.data.audio.levels import CANCELED, CANCELED_POWER, Levels, problem_of_floats

MOST_SAMPLES = 2**29  # of all channels: 2 GiB of floats, nine hours at 16 kHz
UNMARKED = "without a mark of the end (from a pipe or a live encoder?), so all that is there was read"
OTHER_KIND = "joined of recordings of different kinds; divide it"
UNRECOGNIZED, UNKNOWN_FRAMES = 1, 2**63 - 1  # libsndfile's SF_ERR_UNRECOGNISED_FORMAT and SF_COUNT_MAX
UNKNOWN_BYTES = 0x7F000000  # SoX states 0x7F000008 bytes or more in what it writes to a pipe
# libsndfile reads truncated files (of WAV, AIFF, AU, RF64, W64) without an error and reports it only in its log.
STATED_BYTES = re.compile(r"^ *(?:data|SSND|Data Size|Riff size|riff) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
NO_END = re.compile(r"Last page lacks an end-of-stream bit|^ *Data Size *: -1$", re.MULTILINE)
MOST_CHUNKS = 1000  # before the samples of a WAV or CAF
BLOCK = 2**20  # samples or bytes


@dataclass
class Part:
    """A recording in a file.

    Args:
        pieces: Its bytes: places in the file, from and to, or bytes in their stead; none if it is the whole file.
        frames: Its number of samples; `None` if libsndfile finds it.
        claimed: The number of bytes that libsndfile is told, if it bounds the number of samples by that.
        problem: What is wrong with it.
        is_open: Whether its end is not marked.
    """

    pieces: list[tuple[int, int] | bytes] = field(default_factory=list)
    frames: int | None = None
    claimed: int = 0
    problem: str = ""
    is_open: bool = False


class AudioFile:
    """A recording that is read from its beginning to its end; the parts of a joined file follow each other.

    A file that cannot be read is an `error`, here or while it is read, whose message names it and says why.

    Attributes:
        rate_hz: Sample rate.
        channels: Number of channels C.
        frames: Number of samples N; they are counted if the file does not state it.
        is_int16: Whether the samples are 16 bits of one channel.
        notes: What is odd about it, as far as it was read: `UNMARKED`, `SILENT`, `CANCELED`, `CLIPPED`.

    A file of one part stays open until its last sample is read or this is deleted.
    """

    error: type[ValueError] = ValueError

    def __init__(self, path: Path) -> None:
        self.path, self.notes = path, set()
        if path.suffix.lower() == ".raw":  # SoundFile asks for its sample rate
            self.refuse("samples without a header; convert them to WAV")
        self.parts, self.lengths, forms = find_parts(path), [], []
        self.kept: SoundFile | None = None  # opened by now, to be read from its beginning
        for part in self.parts:
            if part.problem:
                self.refuse(part.problem)
            with self.opened(part) as file:
                self.lengths.append(self.length_of(file, part))
                forms.append((file.samplerate, file.channels, file.subtype))
                if len(self.parts) == 1 and not part.pieces and not part.is_open:
                    self.kept = file
        self.rate_hz, self.channels, _ = forms[0]
        self.frames, self.is_int16 = sum(self.lengths), set(forms) == {(self.rate_hz, 1, "PCM_16")}
        if not self.frames:
            self.refuse("no samples")
        if others := [form for form in forms if form[:2] != forms[0][:2]]:
            names = [f"{rate_hz:,} Hz in {channels(count)}" for rate_hz, count, _ in (forms[0], others[0])]
            self.refuse(f"joined of recordings of {names[0]} and {names[1]}; divide it")

    @property
    def duration_s(self) -> float:
        """How long it lasts, in seconds."""
        return self.frames / self.rate_hz

    def refuse(self, problem: str) -> None:
        """Raise the `error` that the file cannot be read, and say what to do if it was cut."""
        remedy = "; copy it again, or keep what is there by `ffmpeg -i IN OUT.wav`" if "truncated" in problem else ""
        raise self.error(f"{self.path}: {problem}{remedy}") from None

    def blocks(self, count: int, *, as_int16: bool = False) -> Iterator[numpy.ndarray]:
        """The samples in blocks of up to `count`, the mean of all channels: float32 (N,), or int16 as they are."""
        levels, power, power_of_mean = Levels(), 0.0, 0.0
        for part, length in zip(self.parts, self.lengths, strict=True):
            if not length:
                continue
            with self.opened(part) as file:
                left = length
                while left:
                    block = file.read(min(count, left), "int16" if as_int16 else "float32")
                    if not len(block):
                        self.refuse(f"truncated: {length - left:,} of {length:,} samples are present")
                    left -= len(block)
                    if not as_int16:
                        if problem := problem_of_floats(float(abs(block).max())):
                            self.refuse(problem)
                        if block.ndim == 2:
                            power += float(numpy.vdot(block, block)) / block.shape[1]
                            block = block.mean(1)
                            power_of_mean += float(numpy.vdot(block, block))
                    levels.add(block)
                    yield block
        is_canceled = power_of_mean < CANCELED_POWER * power
        self.notes |= {CANCELED if is_canceled else levels.problem} - {""}

    def read(self, *, as_int16: bool = False) -> numpy.ndarray:
        """All samples, as `blocks` gives them: (N,)."""
        if self.frames * self.channels > MOST_SAMPLES:
            size = f"{self.duration_s / 3600:,.1f} hours in {channels(self.channels)}"
            self.refuse(f"lasts {size}, more than fits into memory; split it into parts")
        blocks = list(self.blocks(self.frames, as_int16=as_int16))
        return blocks[0] if len(blocks) == 1 else numpy.concatenate(blocks)

    @contextmanager
    def opened(self, part: Part) -> Iterator[SoundFile]:
        """A part as libsndfile opens it, whose errors become those of this file; it is closed unless it is `kept`."""
        if isinstance(self.path, Path):
            whole = self.path.absolute()  # libsndfile reads standard input for the name `-`
            whole = os.fsencode(whole) if os.name == "posix" else whole  # a `str` must be UTF-8 for SoundFile
        else:  # the bytes of a file
            whole = self.path.open("rb")
        try:
            with ExitStack() as stack:
                file, self.kept = self.kept, None
                if file is None:
                    source = Extract(stack.enter_context(self.path.open("rb")), part) if part.pieces else whole
                    file = SequentialFile(source)
                stack.enter_context(file)
                yield file
                if self.kept:
                    stack.pop_all()
        except LibsndfileError as error:
            what = "not a recording that can be read" if error.code == UNRECOGNIZED else "broken or truncated recording"
            self.refuse(f"{what} ({error.error_string.strip(' .')})")

    def length_of(self, file: SoundFile, part: Part) -> int:
        """The number of samples of an opened part, whose header and libsndfile's log are checked."""
        log, length = file.extra_info, part.frames or file.frames
        sizes = STATED_BYTES.search(log)
        if sizes and int(sizes[2]) < int(sizes[1]) < UNKNOWN_BYTES:
            self.refuse(f"truncated: {int(sizes[2]):,} of {int(sizes[1]):,} bytes are present")
        if length == UNKNOWN_FRAMES:
            part.is_open, length = True, sum(iter(lambda: len(file.read(BLOCK, "int16")), 0))
        if sizes or part.is_open or NO_END.search(log):
            self.notes.add(UNMARKED)
        return length


class SequentialFile(SoundFile):
    """A file that is read from its beginning to its end.

    After each read, `SoundFile` seeks to its current position, which makes an MP3 decoder lose its state.
    """

    def seekable(self) -> bool:
        """No."""
        return False


class Extract(io.RawIOBase):
    """The pieces of a file that are a part, as a file."""

    def __init__(self, whole: BinaryIO, part: Part) -> None:
        self.whole, self.position, self.ends = whole, 0, [0]
        self.pieces = part.pieces
        for piece in part.pieces:
            self.ends.append(self.ends[-1] + (len(piece) if isinstance(piece, bytes) else piece[1] - piece[0]))
        self.claimed = part.claimed or self.ends[-1]

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place. The end itself is where `claimed` says, so that libsndfile takes this for the length."""
        end = self.claimed if offset == 0 else self.ends[-1]
        self.position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: end}[whence]
        return self.position

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer, as far as there are bytes."""
        view, done = memoryview(buffer).cast("B"), 0
        while done < len(view) and self.position < self.ends[-1]:
            index = bisect_right(self.ends, self.position) - 1
            piece, first = self.pieces[index], self.position - self.ends[index]
            count = min(len(view) - done, self.ends[index + 1] - self.position)
            content = piece[first:] if isinstance(piece, bytes) else read_at(self.whole, piece[0] + first, count)
            if not content:  # the file has become shorter
                break
            view[done : done + count] = content[:count]
            self.position, done = self.position + count, done + count
        return done


def channels(count: int) -> str:
    """So many channels, in words."""
    return f"{count:,} channel{'s' * (count != 1)}"


def read_at(file: BinaryIO, position: int, count: int) -> bytes:
    """Up to so many bytes of a file."""
    file.seek(position)
    return file.read(count)


def find_parts(path: Path) -> list[Part]:
    """The parts of a file; a whole file that libsndfile reads by itself has one without pieces."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = after_tags(file, 0)
        form = read_at(file, begin, 4)
        if form == b"OggS":
            parts = ogg_parts(file, begin, size)
        elif form in FIRST_BYTES:
            parts = chained_parts(file, begin, size)
        else:
            is_named = path.suffix.lower() == ".mp3"
            parts = mpeg_parts(file, begin, size, is_named)
            if not parts and (begin or is_named or mpeg_frame(file, begin)) and not FREE_FORMAT.match(form):
                # libsndfile would report its search on standard error
                parts = [Part(problem="not a recording that can be read (no frames of MPEG audio)")]
    return parts if parts and parts != [Part([(0, size)])] else [Part()]


def after_tags(file: BinaryIO, position: int) -> int:
    """The place after ID3 tags, if there are any."""
    while (head := read_at(file, position, 10))[:3] == b"ID3" and len(head) == 10:
        size = 0
        for byte in head[6:]:
            size = size << 7 | byte & 127
        position += 10 + size + 10 * (head[5] >> 4 & 1)
    return position


# The beginning of a file by its first four bytes.
FIRST_BYTES = {
    b"fLaC": re.compile(rb"fLaC[\x00\x80]\x00\x00\x22"),
    b"RIFF": re.compile(rb"RIFF.{4}WAVE", re.DOTALL),
    b"RF64": re.compile(rb"RF64.{4}WAVE", re.DOTALL),
    b"FORM": re.compile(rb"FORM.{4}AIF[FC]", re.DOTALL),
    b".snd": re.compile(rb"\.snd\x00{3}."),
    b"riff": re.compile(rb"riff\x2e\x91\xcf\x11"),  # W64
    b"caff": re.compile(rb"caff\x00\x01\x00\x00desc"),
}
NAME = re.compile(rb".?([ -~]{4}|TAG|ID3)", re.DOTALL)  # of a chunk, perhaps after a byte of padding, or of a tag


def chained_parts(file: BinaryIO, begin: int, size: int) -> list[Part]:
    """The parts of files that begin with the same bytes. WAV and AIFF state where they end; others are searched."""
    form, starts, position = read_at(file, begin, 4), [begin], begin
    while position < size:
        stated = read_at(file, position + 4, 4) if form in (b"RIFF", b"FORM") else bytes(4)
        after = position + 8 + int.from_bytes(stated, "little" if form == b"RIFF" else "big")
        position = find(file, form, after if position + 44 < after <= size else position + 4, size)
        if position < size and FIRST_BYTES[form].match(read_at(file, position, 12)):
            starts.append(position)
    parts = [Part([(start, end)]) for start, end in zip(starts, [*starts[1:], size], strict=True)]
    for part in parts:
        start, end = part.pieces[0]
        if others_follow(file, form, start, end):
            part.problem = OTHER_KIND
        elif form in (b"RIFF", b"RF64", b"caff", b".snd"):
            mark_open(file, part)
        elif form == b"fLaC" and read_at(file, max(end - 128, start), 3) == b"TAG":  # ID3v1, which libsndfile decodes
            part.pieces = [(start, end - 128)]
    return parts


def others_follow(file: BinaryIO, form: bytes, start: int, end: int) -> bool:
    """Whether recordings of other kinds follow a part. FLAC does not state its end: it is searched for Ogg and WAV."""
    head = read_at(file, start, 12)
    if form == b"fLaC":
        first, is_last = start + 4, False  # after its metadata, which may have the header of a WAV
        while not is_last and first < end:
            block = read_at(file, first, 4).ljust(4, b"\0")
            first, is_last = first + 4 + int.from_bytes(block[1:]), block[0] > 127
        places = (find(file, kind, first, end) for kind in (b"OggS\0", b"RIFF"))
    elif form in (b"RIFF", b"FORM"):
        places = (start + 8 + int.from_bytes(head[4:8], "little" if form == b"RIFF" else "big"),)
    elif form == b".snd":
        places = (start + int.from_bytes(head[4:8]) + int.from_bytes(head[8:]),)
    else:
        places = ()
    return any(start + 12 < place < end and is_recording(file, place) for place in places)


def find(file: BinaryIO, pattern: bytes, position: int, size: int) -> int:
    """The next place of some bytes; the end if there is none."""
    while position + len(pattern) <= size:
        block = read_at(file, position, min(BLOCK, size - position))
        if (index := block.find(pattern)) >= 0:
            return position + index
        position += max(len(block) - len(pattern) + 1, 1)
    return size


def mark_open(file: BinaryIO, part: Part) -> None:
    """Note whether the header states no size of its samples, or too little, and have libsndfile read all that follow.

    A part is a WAV, RF64, CAF or AU. The header of a recorder that crashed states too little.
    """
    start, end = part.pieces[0]
    form = read_at(file, start, 4)
    if form == b".snd":
        head = read_at(file, start, 12)
        first, length = start + int.from_bytes(head[4:8]), int.from_bytes(head[8:])
        if first < end and (not length or samples_follow(file, first + length, end)):
            part.pieces, part.is_open = [(start, start + 8), b"\xff" * 4, (start + 12, end)], True
        return
    is_caf = form == b"caff"
    place, digits, order = start + (8 if is_caf else 12), 8 if is_caf else 4, "big" if is_caf else "little"
    for _ in range(MOST_CHUNKS):
        head = read_at(file, place, 4 + digits)
        length = int.from_bytes(head[4:], order)
        if head[:4] == b"data" or place + length >= end:
            break
        place += 4 + digits + length + (length % 2 and not is_caf)
    first, stated = place + 4 + digits, start + 8 + int.from_bytes(read_at(file, start + 4, 4), "little")
    if head[:4] != b"data":
        return
    if is_caf and length == 2**64 - 1:
        part.pieces, part.is_open = [(start, place + 4), (end - first).to_bytes(8), (first, end)], True
    elif form == b"RF64" and read_at(file, start + 12, 4) == b"ds64" and read_at(file, start + 28, 8) == bytes(8):
        sizes = (end - start - 8).to_bytes(8, "little") + (end - first).to_bytes(8, "little")
        part.pieces, part.is_open = [(start, start + 20), sizes, (start + 36, end)], first < end
    elif form == b"RIFF" and ((not length and stated != end) or samples_follow(file, first + length, end)):
        # libsndfile reads all if the file states 8 bytes in all
        riff = b"RIFF" + bytes([8, 0, 0, 0])
        part.pieces, part.is_open = [riff, (start + 8, place + 4), bytes(4), (first, end)], True


def samples_follow(file: BinaryIO, place: int, end: int) -> bool:
    """Whether what follows the samples that a header states is neither zeros nor a chunk or tag, by its name."""
    return end - place > 8 and not NAME.match(read_at(file, place, 5)) and any(read_at(file, place, BLOCK))


def is_recording(file: BinaryIO, place: int) -> bool:
    """Whether a recording of any kind begins at a place, perhaps with tags."""
    frame = mpeg_frame(file, place := after_tags(file, place))
    after = frame and mpeg_frame(file, place + frame.size)
    return is_container(file, place) or (after is not None and after.form == frame.form)


def is_container(file: BinaryIO, place: int) -> bool:
    """Whether a recording begins at a place, but for MPEG audio."""
    head = read_at(file, after_tags(file, place), 12)
    return head[:5] == b"OggS\0" or (head[:4] in FIRST_BYTES and bool(FIRST_BYTES[head[:4]].match(head)))


def ogg_parts(file: BinaryIO, place: int, size: int) -> list[Part]:
    """The parts of an Ogg file, each of which begins with the first pages of its streams."""
    parts, was_first, with_samples = [], False, set()
    while (place := find(file, b"OggS\0", place, size)) < size:
        head = read_at(file, place, 27).ljust(27, b"\0")
        segments = file.read(head[26])
        end, is_first = place + 27 + head[26] + sum(segments), bool(head[5] & 2)
        if not parts or (is_first and not was_first):
            parts.append(Part([(place, place)]))
        next_place = find(file, b"OggS\0", place + 27, min(end, size)) if read_at(file, end, 5) != b"OggS\0" else end
        if head[6:14] not in (bytes(8), b"\xff" * 8):  # the number of samples so far; libsndfile refuses an empty Opus
            with_samples.add(len(parts) - 1)
        if end > size or next_place < end:
            parts[-1].problem = "truncated: a page is cut"
        parts[-1].pieces = [(parts[-1].pieces[0][0], min(end, next_place, size))]
        place, was_first = min(end, next_place), is_first
    if parts and is_recording(file, parts[-1].pieces[0][1]):
        parts[-1].problem = parts[-1].problem or OTHER_KIND
    kept = [part for index, part in enumerate(parts) if part.problem or index in with_samples]
    return kept or [Part(problem="no samples")]


# Of MPEG audio (ISO 11172-3 and 13818-3): sample rates of MPEG-1, of which MPEG-2 and 2.5 have halves and quarters, and
# kilobits a second by whether it is MPEG-1, and by layer.
RATES_HZ = (44_100, 48_000, 32_000)
LOW_KBPS = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
KBPS = {
    (True, 1): range(32, 449, 32),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): LOW_KBPS,
    (False, 3): LOW_KBPS,
}
FREE_FORMAT = re.compile(rb"\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff][\x00-\x0f]")  # no bit rate; left to libsndfile
SYNC = re.compile(rb"\xff[\xe2-\xff][\x10-\xef]")
# What a first frame may have in place of samples: flags and the number of frames, or (VBRI) the number alone.
TAG = re.compile(
    rb".{4}(..)?\0{9,32}(Xing|Info)\0{3}(?P<flags>.)(?P<frames>.{4})|.{4}\0{32}VBRI.{10}(?P<vbri>.{4})", re.DOTALL
)


class Frame(NamedTuple):
    """A frame of MPEG audio: its place, its bytes and samples, what all frames of a part share, and its first bytes."""

    place: int
    size: int
    samples: int
    form: tuple[int, bool]
    head: bytes


def mpeg_frame(file: BinaryIO, place: int) -> Frame | None:
    """The frame at a place; `None` if there is none, or one whose size is not stated (free format)."""
    head = read_at(file, place, 64)
    bits = int.from_bytes(head[:4], "big")
    version, layer, kbps, rate = bits >> 19 & 3, 4 - (bits >> 17 & 3), bits >> 12 & 15, bits >> 10 & 3
    if bits >> 21 != 0x7FF or version == 1 or layer == 4 or kbps in (0, 15) or rate == 3:
        return None
    samples, unit = 384 if layer == 1 else 1152 if version == 3 or layer == 2 else 576, 4 if layer == 1 else 1
    rate_hz = RATES_HZ[rate] >> {3: 0, 2: 1, 0: 2}[version]
    units = samples // 8 // unit * 1000 * KBPS[version == 3, layer][kbps - 1] // rate_hz + (bits >> 9 & 1)
    return Frame(place, units * unit, samples, (bits & 0xFFFE0C00, bits >> 6 & 3 == 3), head)


def mpeg_frames(file: BinaryIO, place: int, size: int) -> Iterator[Frame]:
    """The frames of MPEG audio. Other bytes are passed over; after these, a frame must be followed by another one."""
    form = None
    while place < size:
        frame = mpeg_frame(file, place)
        if frame is not None and frame.form != form and place + frame.size != size:
            after = mpeg_frame(file, place + frame.size)
            frame = frame if after is not None and after.form == frame.form else None
        if frame is not None:
            yield frame
            form, place = frame.form, place + frame.size
        elif (behind := after_tags(file, place)) > place:
            form, place = None, behind
        else:
            block = read_at(file, place + 1, 4096)
            found = SYNC.search(block)
            form, place = None, place + 1 + (found.start() if found else max(len(block) - 2, 0))


@dataclass
class Run:
    """Frames of MPEG audio that are a part: their form, places and numbers, and the tag before them."""

    form: tuple[int, bool]
    tag: bytes = b""
    stated: int = 0  # frames, by the tag
    pieces: list[tuple[int, int]] = field(default_factory=list)
    count: int = 0
    samples: int = 0
    largest: int = 0

    def add(self, frame: Frame) -> None:
        """Add the next frame."""
        first = frame.place
        if self.pieces and self.pieces[-1][1] == frame.place:
            first, _ = self.pieces.pop()
        self.pieces.append((first, frame.place + frame.size))
        self.count, self.samples = self.count + 1, self.samples + frame.samples
        self.largest = max(self.largest, frame.size)

    def part(self, size: int) -> Part:
        """The part, of a file of so many bytes."""
        is_cut = self.pieces[-1][1] > size
        if self.count - is_cut < self.stated - 1:
            return Part(problem=f"truncated: {self.count - is_cut:,} of {self.stated:,} frames are present")
        if is_cut:
            return Part(problem="truncated: its last frame is cut")
        if self.tag and self.count == self.stated:
            return Part([self.tag, *self.pieces])
        return Part(self.pieces, self.samples, self.largest * (self.count + 1))


def mpeg_parts(file: BinaryIO, begin: int, size: int, is_named: bool) -> list[Part]:
    """The parts of an MP3 or other MPEG audio: each begins with a tag, or with frames of another form.

    A tag states the number of frames, and how many samples the encoder has added. If it is right, libsndfile reads it.
    Otherwise the frames are counted, and libsndfile is told of enough bytes to read all of them. A file that is not
    named so must begin with a frame.
    """
    runs: list[Run] = []
    for frame in mpeg_frames(file, begin, size) if is_named or mpeg_frame(file, begin) else ():
        if not runs and not is_named and frame.place != begin:
            return []
        tag = TAG.match(frame.head)
        if tag or not runs or frame.form != runs[-1].form:
            runs.append(Run(frame.form))
        if not tag:
            runs[-1].add(frame)
        else:
            runs[-1].stated = int.from_bytes(tag["vbri"] or (tag["flags"][0] & 1) * tag["frames"], "big")
            if tag["flags"] and tag["flags"][0] & 1:  # it has the number of frames
                runs[-1].tag = without_bytes(read_at(file, frame.place, frame.size), tag)
    if any(is_container(file, end) for run in runs for _, end in run.pieces):
        return [Part(problem=OTHER_KIND)]
    return [run.part(size) for run in runs if run.count]


def without_bytes(content: bytes, tag: re.Match) -> bytes:
    """A tag frame without the number of bytes: where that is not right, libsndfile says so on standard error."""
    flags, end = tag["flags"][0], tag.end("frames")
    if flags & 2 == 0:
        return content
    return content[: tag.start("flags")] + bytes([flags & ~2]) + tag["frames"] + content[end + 4 :] + bytes(4)
