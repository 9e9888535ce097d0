"""Makes wheels and source archives for pip and build: the hooks of PEP 517.

A wheel is what scripts/build-python makes. It is built for the system's Python, so that another one
is refused; compilers and libraries are those of docs/requirements.md.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Folders of a tree without Git that are not part of it.
LEFT_OUT = ("build", "dist", "out", "__pycache__", ".git", ".cache")


def _read(*parts: str) -> str:
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
        return file.read()


def _project() -> dict[str, str]:
    """Version and description, as CMake has them."""
    found = re.search(r"project\(\s*\w+(.*?)\)", _read("CMakeLists.txt"), re.DOTALL)
    assert found is not None
    version = re.search(r"VERSION\s+([0-9.]+)", found[1])
    description = re.search(r'DESCRIPTION\s+"([^"]*)"', found[1])
    assert version is not None and description is not None
    return {"PROJECT_VERSION": version[1], "PROJECT_DESCRIPTION": description[1],
            "Python_VERSION_MAJOR": str(sys.version_info[0]),
            "Python_VERSION_MINOR": str(sys.version_info[1])}


def _metadata() -> str:
    text = _read("python", "wheel", "METADATA.in")
    for name, value in _project().items():
        text = text.replace(f"@{name}@", value)
    return text


def _files() -> list[str]:
    """The project's files, relative to its folder."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
        names = [n for n in listed.stdout.decode().split("\0") if n]
        if names:
            return [n for n in names if os.path.isfile(os.path.join(ROOT, n))]
    except (OSError, subprocess.CalledProcessError):
        pass
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in LEFT_OUT and not f.startswith("build-"))
        found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in sorted(files)
                  if not f.endswith(".pyc") and f != "PKG-INFO"]
    return found


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Writes topograd-VERSION.tar.gz, with the project's files and PKG-INFO; returns its name."""
    top = "topograd-" + _project()["PROJECT_VERSION"]
    name = top + ".tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        about = _metadata().encode()
        info = tarfile.TarInfo(top + "/PKG-INFO")
        info.size = len(about)
        archive.addfile(info, io.BytesIO(about))
        for file in _files():
            archive.add(os.path.join(ROOT, file), f"{top}/{file}", recursive=False)
    return name


def build_wheel(wheel_directory: str, config_settings: Any = None,
                metadata_directory: str | None = None) -> str:
    """Builds the wheel; returns its name. Raises RuntimeError for a Python that is not the system's."""
    asked = subprocess.run(["/usr/bin/python3", "-c", "import sys; print(*sys.version_info[:2])"],
                           capture_output=True, text=True, check=True).stdout.split()
    if asked != [str(v) for v in sys.version_info[:2]]:
        raise RuntimeError("expected the system's Python " + ".".join(asked) + ", which the module is "
                           f"built for, got {sys.version_info[0]}.{sys.version_info[1]}")
    folder = os.path.abspath(wheel_directory)
    subprocess.run([os.path.join(ROOT, "scripts", "build-python"), folder], cwd=ROOT, check=True,
                   stdout=sys.stderr)
    names = [n for n in os.listdir(folder) if n.startswith("topograd-") and n.endswith(".whl")]
    return max(names, key=lambda n: os.path.getmtime(os.path.join(folder, n)))
