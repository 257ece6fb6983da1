"""A Python that has what an exported folder needs, and neither torch nor vitspeech."""

import os
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import distribution
from pathlib import Path

NEEDED = ("numpy", "onnxruntime", "soundfile", "cffi", "pillow", "typing_extensions")


def make_bare(folder: Path) -> Path:
    """Make a virtual environment whose packages are links to the installed ones; returns its interpreter."""
    venv.create(folder, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for name in NEEDED:
        package = distribution(name)
        for top in {file.parts[0] for file in package.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(package.locate_file(top))
    return folder / "bin" / "python"


def run(python: Path, *words: object, folder: Path | None = None) -> subprocess.CompletedProcess:
    """Run a script in another folder and an empty environment, in which nothing else can be found."""
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    options = {"cwd": folder or python.parent, "env": environment, "capture_output": True, "text": True}
    return subprocess.run([python, *map(str, words)], errors="surrogateescape", **options)


if __name__ == "__main__":
    print(make_bare(Path(sys.argv[1])))
