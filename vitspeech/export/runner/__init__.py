"""The files of an exported folder that run it without vitspeech: `run.py` and the modules that it imports.

They are modules of the package that need numpy, ONNX Runtime, soundfile or Pillow alone, and import each other by
lines `from vitspeech.decoding.keywords import …`. In the copies, which lie beside each other, these lines become
`from keywords import …`.
"""

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
IMPORT = re.compile(rb"^( *)from vitspeech\.([\w.]+) import ", re.MULTILINE)


def runner(kind: str) -> dict[str, bytes]:
    """The content of `run.py` and of the files beside it, for a model of this kind."""
    contents, waiting = {}, {"run.py": f"export.runner.{kind.replace('-', '_')}"}
    while waiting:
        name, module = waiting.popitem()
        source = (PACKAGE / f"{module.replace('.', '/')}.py").read_bytes()
        imported = [found[2].decode() for found in IMPORT.finditer(source)]
        waiting |= {f"{each.rpartition('.')[2]}.py": each for each in imported}
        waiting = {other: each for other, each in waiting.items() if other not in {*contents, name}}
        contents[name] = IMPORT.sub(
            lambda found: found[1] + b"from " + found[2].rpartition(b".")[2] + b" import ", source
        )
    return contents
