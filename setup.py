"""The packages of the wheel: everything under vitspeech/, and the folder configs/ as vitspeech/configs."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["vitspeech", "vitspeech.*"]), "vitspeech.configs"],
    package_dir={"vitspeech.configs": "configs"},
)
