"""torchaudio, or in one line why it does not load: `from vitspeech.torch_audio import resample`.

It states no release of torch that it needs, so pip installs releases side by side that do not load together.
"""

from importlib.metadata import version

from vitspeech.errors import InputError

try:
    import torchaudio as torchaudio
    from torchaudio.datasets import LIBRISPEECH as LIBRISPEECH
    from torchaudio.datasets import SPEECHCOMMANDS as SPEECHCOMMANDS
    from torchaudio.functional import resample as resample
except (OSError, RuntimeError) as error:  # an undefined symbol, or another version of CUDA
    torch = version("torch")
    minor = ".".join(torch.split(".")[:2])
    fitting = f"{minor}.*" if minor in ("2.9", "2.10") else f"2.11.{int(minor != '2.11')}"
    raise InputError(
        f"torchaudio {version('torchaudio')} does not load beside torch {torch} ({str(error).splitlines()[0]}); "
        f'try `pip install "torchaudio=={fitting}"`'
    ) from error
