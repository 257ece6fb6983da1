"""The packages of the wheel: everything under vitspeech/, configs/, and what training starts from in checkpoints/."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["vitspeech", "vitspeech.*"]), "vitspeech.configs", "vitspeech.checkpoints"],
    package_dir={"vitspeech.configs": "configs", "vitspeech.checkpoints": "checkpoints"},
)
