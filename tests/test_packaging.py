"""The wheel holds everything that the package needs outside its clone."""

import ast
import os
import subprocess
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from vi_contact._core import _compiled

ROOT = Path(__file__).parents[1]
BUILT = {"__pycache__", ".cpp", ".hpp", ".so"}
"""What the wheel leaves out, or builds."""

USE_THE_WHEEL = """
import importlib.resources
import numpy as np
import vi_contact, vi_contact.controllers
from vi_contact._core import quaternion_product

print(vi_contact.__file__)
print(vi_contact.controllers.__file__)
print(importlib.resources.files("vi_contact") / "urdf" / "fly_hopper" / "fly_hopper.urdf")
half_turn = np.array([0.0, 0.0, 1.0, 0.0])
assert list(quaternion_product(half_turn, half_turn)) == [0, 0, 0, -1]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Path of the wheel of this clone, built as pip builds it, compiler warnings being errors."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"]
    command += ["--config-settings=cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(ROOT)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("vi_contact-*.whl")
    return path


def test_wheel_holds_every_robot_controller_demo_and_module_but_no_cpp(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    patterns = {"vi_contact": "*.*", "controllers": "*.py", "demos": "*.py", "urdf": "*.*"}
    for folder, pattern in patterns.items():
        files = [p for p in (ROOT / folder).rglob(pattern) if p.is_file()]
        sources = [p for p in files if not BUILT & {*p.parts, p.suffix}]
        installed = {p.relative_to(ROOT).as_posix() for p in sources}
        if folder != "vi_contact":
            installed = {f"vi_contact/{name}" for name in installed}
        assert installed
        assert installed <= names
    assert any(fnmatch(name, "vi_contact/_core/_compiled.*.so") for name in names)
    assert not [name for name in names if name.endswith((".cpp", ".hpp"))]


def test_wheel_works_outside_the_clone(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    # -S: without the hooks of site-packages, which would find the editable installation first.
    third_parties = [p for p in sys.path if "site-packages" in p]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *third_parties])}
    done = subprocess.run(
        [sys.executable, "-S", "-c", USE_THE_WHEEL],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    paths = [Path(line) for line in done.stdout.splitlines()]
    assert len(paths) == 3
    for path in paths:
        assert path.is_relative_to(tmp_path)
        assert path.is_file()


def test_stub_names_what_the_extension_has():
    stub = ast.parse((ROOT / "vi_contact" / "_core" / "_compiled.pyi").read_text())
    declared = {node.name for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert declared == {name for name in dir(_compiled) if not name.startswith("_")}
