"""Arrays that were computed once, kept in the user's cache folder.

A file holds the hash of its key and content, then an .npz: what is broken, or of another key, is
not used. Files appear whole or not at all, and where none can be written all is computed anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VARIABLE = "VI_CONTACT_CACHE"
"""Of the environment: "off", or the folder to use."""

DIGEST = hashlib.sha256().digest_size


def folder() -> Path | None:
    """Where files are kept; None if nowhere."""
    chosen = os.environ.get(VARIABLE, "").strip()
    if chosen.lower() in ("off", "0", "no", "false"):
        return None
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # as the XDG specification has it
        base = os.path.expanduser("~/.cache")
    return Path(base, "vi_contact", "meshes") if os.path.isabs(base) else None


def load(key: str) -> dict[str, NDArray[Any]] | None:
    """What was kept under a key; None if nothing is, or nothing that can be used."""
    place = folder()
    if place is None:
        return None
    try:
        content = (place / f"{key}.npz").read_bytes()
        digest, packed = content[:DIGEST], content[DIGEST:]
        if digest != hashlib.sha256(key.encode() + packed).digest():
            return None
        with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None


def save(key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Keeps arrays under a key, if that is possible."""
    place = folder()
    if place is None:
        return
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    packed = stream.getvalue()
    unfinished = ""
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=place, suffix=".part", delete=False) as file:
            unfinished = file.name
            file.write(hashlib.sha256(key.encode() + packed).digest() + packed)
        os.replace(unfinished, place / f"{key}.npz")
    except OSError:  # read-only, full, or no folder: the next one computes it again
        if unfinished:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
