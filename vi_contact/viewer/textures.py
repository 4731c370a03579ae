"""Pictures that mesh files name as their textures, from where they may come.

A report is passed on, with the pictures inside: a mesh file must not bring into it whatever file of
the computer it names.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from lxml import etree

_log = logging.getLogger("vi_contact")

LARGEST = 64_000_000
"""Of a picture [bytes]; 4096 x 4096 without compression."""

WHITE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEA"
    "G7buVgAAAABJRU5ErkJggg=="
)
"""One white pixel, in place of a picture that is not to be had."""


def textures_of(mesh: Path, text: str, robot_file: str) -> dict[str, str]:
    """For each picture that a COLLADA file names, its data address.

    Pictures are taken from the folders of the robot's file and of the mesh, and from the packages
    that these are in, symbolic links resolved; one from elsewhere, or a file that is no picture by
    its content, is left white.
    """
    folders = [folder.resolve() for folder in _folders(mesh, robot_file)]
    pictures = {}
    for name in _names(text):
        content = _content(mesh, name, folders)
        if content is None:
            _log.warning("mesh %s: no picture '%s' in the robot's folders", mesh.name, name)
        pictures[str(Path(name))] = pictures[name] = content or WHITE
    return pictures


def parse(text: str) -> etree._Element:
    """The root of a COLLADA file; entities of a DOCTYPE, which can reach other files, stay out."""
    parser = etree.XMLParser(encoding="utf-8", huge_tree=True, resolve_entities=False)
    return etree.fromstring(text.encode(), parser)


def _names(text: str) -> Iterator[str]:
    """Files of the pictures."""
    if "init_from" not in text:
        return
    for library in parse(text).iter("{*}library_images"):
        for element in library.iter("{*}init_from"):
            name = (element.text or element.findtext("{*}ref") or "").strip()
            if name:
                yield name


def _folders(mesh: Path, robot_file: str) -> Iterator[Path]:
    """Where pictures may stand: beside the robot and the mesh, and in their packages."""
    for file in (mesh, Path(robot_file) if robot_file else mesh):
        here = file.resolve().parent
        yield here
        yield from [up for up in (here, *here.parents) if (up / "package.xml").is_file()][:1]


def _content(mesh: Path, name: str, folders: list[Path]) -> str | None:
    """A picture as a data address, if it is one and may be read."""
    for written in dict.fromkeys((name, unquote(name))):
        try:
            file = (mesh.parent / written.removeprefix("file://")).resolve()
            inside = any(file.is_relative_to(folder) for folder in folders)
            if not inside or not file.is_file() or file.stat().st_size > LARGEST:
                continue
            content = file.read_bytes()
        except (
            OSError,
            ValueError,
            RuntimeError,
        ):  # unreadable, no name of a file, links in a ring
            continue
        kind = _kind(content)
        if kind:
            return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    return None


def _kind(content: bytes) -> str:
    """Of a picture that browsers draw, by its first bytes; "" if it is none."""
    beginnings = {
        b"\x89PNG\r\n\x1a\n": "png",
        b"\xff\xd8\xff": "jpeg",
        b"GIF87a": "gif",
        b"GIF89a": "gif",
        b"BM": "bmp",
    }
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "webp"
    if content[:2] == b"BM" and int.from_bytes(content[2:6], "little") != len(content):
        return ""  # text may begin so, too
    return next((kind for begin, kind in beginnings.items() if content.startswith(begin)), "")
