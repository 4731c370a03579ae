"""Files of arrays, .npz, that may come from anywhere: read with care, and checked."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vi_contact.errors import TrajectoryFileError
from vi_contact.robot.robot import computer_memory

Arrays = dict[str, NDArray[Any]]

UNIT_TOLERANCE = 1e-6
"""Of the length of a quaternion; those of a simulation are unit to 1e-12 after any time."""


def read_arrays(path: str | Path, what: str) -> Arrays:
    """The arrays of an .npz file, or TrajectoryFileError: it is not `what`.

    Whatever its bytes say, no more memory is taken than the file declares, and that is at most
    what the computer has.
    """
    try:
        return _read(Path(path))
    except FileNotFoundError:
        raise TrajectoryFileError(f"there is no file {path}") from None
    except PermissionError as error:
        raise TrajectoryFileError(f"cannot read {path}: {error.strerror}") from None
    except Exception as error:  # zipfile, zlib and numpy raise a dozen kinds on damaged files
        reason = " ".join(str(error).split())[:120]
        words = f"{path} is not {what} (.npz){f': {reason}' if reason else ''}"
        raise TrajectoryFileError(words) from error


def _read(path: Path) -> Arrays:
    arrays: Arrays = {}
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > computer_memory():
            raise ValueError("it unpacks to more than this computer's memory")
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"it has two arrays '{name}'")
            content = archive.read(entry)  # which checks the sum of its bytes
            if _promised(content) > len(content):
                raise ValueError(f"the array '{name}' is cut off")
            arrays[name] = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    return arrays


def _promised(content: bytes) -> int:
    """Bytes of the numbers that the head of an .npy file promises."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"version {version} of arrays is not known")
    shape, _, dtype = readers[version](stream)
    size = dtype.itemsize
    for length in shape:
        if length < 0:
            raise ValueError("an array has a length below zero")
        size *= length
    return size


class Contents:
    """The arrays of a file by name, taken out one by one and checked; any fault is an error."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = dict(arrays)

    def left(self) -> Iterable[str]:
        """Names not taken yet."""
        return self._arrays.keys()

    def part(self, prefix: str) -> Arrays:
        """The arrays whose names begin so, without the beginning."""
        names = [name for name in self._arrays if name.startswith(prefix)]
        return {name.removeprefix(prefix): self._arrays.pop(name) for name in names}

    def _take(self, name: str, kinds: str) -> NDArray[Any]:
        if name not in self._arrays:
            raise ValueError(f"it has no '{name}'")
        array = self._arrays.pop(name)
        if array.dtype.kind not in kinds:
            raise ValueError(f"'{name}' has the type {array.dtype}")
        return array

    def numbers(
        self,
        name: str,
        *shape: int | None,
        finite: bool = True,
        whole: tuple[int, int] | None = None,
    ) -> NDArray[np.float64]:
        """Doubles of that shape, None for any length; `whole`: from the first to below the last."""
        array = self._shaped(name, self._take(name, "f"), shape)
        if array.dtype != np.float64:
            raise ValueError(f"'{name}' has the type {array.dtype}")
        if finite and not np.isfinite(array).all():
            raise ValueError(f"'{name}' has numbers that are not finite")
        if whole is not None:
            check_whole(name, array, *whole)
        return array

    def counts(self, name: str, *shape: int | None) -> NDArray[Any]:
        """Whole numbers of that shape, none below zero."""
        array = self._shaped(name, self._take(name, "i"), shape)
        if (array < 0).any():
            raise ValueError(f"'{name}' has numbers below zero")
        return array

    def words(self, name: str, *shape: int | None) -> NDArray[np.str_]:
        """Strings of that shape."""
        array = self._arrays.get(name)
        if array is not None and array.size == 0 and array.dtype.kind == "f":
            self._arrays[name] = array.astype(np.str_)  # an empty tuple has no type of its own
        return self._shaped(name, self._take(name, "U"), shape)

    def word(self, name: str) -> str:
        return str(self.words(name))

    def number(self, name: str) -> float:
        return float(self.numbers(name))

    def flag(self, name: str) -> bool:
        return bool(self._shaped(name, self._take(name, "b"), ()))

    @staticmethod
    def _shaped(name: str, array: NDArray[Any], shape: tuple[int | None, ...]) -> NDArray[Any]:
        there = array.shape
        same = len(there) == len(shape) and all(
            wanted in (None, length) for wanted, length in zip(shape, there, strict=True)
        )
        if not same:
            needed = ", ".join("any" if length is None else str(length) for length in shape)
            raise ValueError(f"'{name}' has shape {there}, needed is ({needed})")
        return array


def check_whole(name: str, array: NDArray[Any], first: int, last: int) -> None:
    """ValueError unless all are whole numbers from `first` to below `last`."""
    if array.size and not ((array == np.floor(array)) & (array >= first) & (array < last)).all():
        raise ValueError(f"'{name}' has numbers that are none of {first} to {last - 1}")


def check_unit(name: str, quaternions: NDArray[np.float64]) -> None:
    """ValueError unless the last axis holds quaternions of length one."""
    lengths = np.linalg.norm(quaternions, axis=-1)
    if lengths.size and not (np.abs(lengths - 1.0) < UNIT_TOLERANCE).all():
        raise ValueError(f"'{name}' has quaternions whose length is not one")


def check_unique(name: str, names: Iterable[str]) -> None:
    """ValueError where a name comes twice."""
    listed = list(names)
    if len(set(listed)) < len(listed):
        raise ValueError(f"'{name}' has a name twice")
