"""Reading robot XML with errors that say file, line, element and what was expected."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
from lxml import etree

from vi_contact.errors import (
    NotXmlError,
    RobotFileError,
    RobotFileNotFoundError,
    ValueFormatError,
)
from vi_contact.robot.parts import Array

Element: TypeAlias = Any
"""An lxml element; lxml has no types of its own."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""What urdfdom reads as a number; Python would also take 1_0 and the digits of other scripts."""

_SMALLEST = 2.3e-308
"""Below the smallest normal double, which some C++ libraries refuse to read: taken as zero."""

_NAMESPACE_DOMAIN = 3  # libxml2's domain of errors about undeclared prefixes


@dataclass(frozen=True)
class Document:
    """A parsed file; every complaint goes through `fail` so that it names its place."""

    path: Path
    root: Element

    def fail(self, kind: type[RobotFileError], element: Element | None, message: str) -> NoReturn:
        raise kind(self.path, message, None if element is None else element.sourceline)

    def text(self, element: Element, attribute: str) -> str:
        """An attribute that must be there and say something."""
        value = element.get(attribute)
        if value is None:
            problem = f"<{local_name(element)}> needs the attribute '{attribute}'"
        elif not value.strip():
            problem = f"<{local_name(element)} {attribute}={value!r}> is empty"
        else:
            return str(value)
        self.fail(ValueFormatError, element, problem)

    def number(self, element: Element, attribute: str, default: float | None = None) -> float:
        """A finite number; required when there is no default."""
        if default is not None and element.get(attribute) is None:
            return default
        return float(self.numbers(element, attribute, 1)[0])

    def vector(
        self, element: Element | None, attribute: str, default: tuple[float, float, float]
    ) -> Array:
        """Three finite numbers, the default if the element or attribute is missing."""
        if element is None or element.get(attribute) is None:
            return np.array(default)
        return self.numbers(element, attribute, 3)

    def axis(
        self,
        element: Element | None,
        default: tuple[float, float, float],
        kind: type[RobotFileError],
        owner: str,
    ) -> Array:
        """A unit vector from the attribute xyz, of any length but zero; written back as such."""
        axis = self.vector(element, "xyz", default)
        largest = np.abs(axis).max()
        if largest == 0.0 and element is not None:
            self.fail(kind, element, f"{owner} has a zero <{local_name(element)}>")
        axis = axis / largest  # first: squares of 1e-200 or 1e200 have no place in a double
        axis = axis / np.linalg.norm(axis)
        if element is not None:
            element.set("xyz", _written(axis))
        return axis

    def numbers(self, element: Element, attribute: str, count: int) -> Array:
        """Finite numbers, written back in the plain form that every reader of URDF accepts."""
        text = self.text(element, attribute)
        values = self._read(element, f' {attribute}="{text}"', text, count)
        element.set(attribute, _written(values))
        return values

    def content_number(self, element: Element) -> float:
        """A finite number between an element's tags."""
        text = (element.text or "").strip()
        return float(self._read(element, "", text, 1)[0])

    def _read(self, element: Element, shown: str, text: str, count: int) -> Array:
        words = text.split()
        values = [float(word) for word in words if _NUMBER.fullmatch(word)]
        if len(values) == len(words) == count and all(map(math.isfinite, values)):
            return np.array([value if abs(value) >= _SMALLEST else 0.0 for value in values])
        expected = "a finite number" if count == 1 else f"{count} finite numbers"
        content = "" if shown else f" with the content '{text}'"
        message = f"<{local_name(element)}{shown}>{content} should be {expected}"
        if local_name(element) == "limit" and "inf" in text.lower():
            message += "; for no limits leave lower and upper out, for one side write a large one"
        self.fail(ValueFormatError, element, message)


def _written(values: Array) -> str:
    return " ".join(repr(float(value)) for value in values)


def parse(path: Path) -> Document:
    """Reads a URDF file; undeclared namespace prefixes (drake: is often one) are accepted."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RobotFileNotFoundError(path, f"cannot be read: {error.strerror}") from None
    parser = etree.XMLParser(remove_comments=True, remove_pis=True, resolve_entities=False)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        if any(entry.domain != _NAMESPACE_DOMAIN for entry in parser.error_log):
            raise NotXmlError(path, f"not well-formed XML: {error.msg}", error.lineno) from None
        lenient = etree.XMLParser(
            remove_comments=True, remove_pis=True, resolve_entities=False, recover=True
        )
        root = etree.fromstring(content, lenient)
    _refuse_entities(path, root, content)
    hints = {
        "mujoco": "this is a MuJoCo MJCF file; vi_contact reads URDF",
        "sdf": "this is an SDFormat file; vi_contact reads URDF",
    }
    if root.tag != "robot":
        hint = hints.get(str(root.tag), "a URDF has the top element <robot>")
        if str(root.tag).startswith("{") and local_name(root) == "robot":
            hint = f'remove its default namespace, xmlns="{root.nsmap.get(None, "")}"'
        raise NotXmlError(path, f"the top element is <{local_name(root)}>: {hint}", root.sourceline)
    if any("xacro" in str(prefix) for prefix in _prefixes(root)):
        raise NotXmlError(
            path,
            "this is a xacro file with macros left to expand; run `xacro FILE > FILE.urdf` first",
            root.sourceline,
        )
    return Document(path, root)


def _refuse_entities(path: Path, root: Element, content: bytes) -> None:
    """Entities of a DOCTYPE are not expanded (they can reach other files, or explode): say so."""
    info = root.getroottree().docinfo
    if info.internalDTD is None:
        return
    text = content.decode(info.encoding or "utf-8", errors="replace")
    for entity in info.internalDTD.entities():
        if f"&{entity.name};" in text:
            raise NotXmlError(
                path,
                f"uses the entity &{entity.name}; of its DOCTYPE, which vi_contact does not "
                "expand; run `xmllint --noent FILE > EXPANDED.urdf` first",
            )


def _prefixes(root: Element) -> set[str]:
    """Namespace prefixes of elements that occur."""
    found = set()
    for element in root.iter():
        if isinstance(element.tag, str) and (element.prefix or ":" in element.tag):
            found.add(element.prefix or element.tag.split(":")[0])
    return found


def local_name(element: Element) -> str:
    """Tag with its prefix but without the namespace address: drake:ball_constraint."""
    tag = str(element.tag)
    if tag.startswith("{"):
        tag = tag.split("}", 1)[1]
        return f"{element.prefix}:{tag}" if element.prefix else tag
    return tag


def describe(element: Element) -> str:
    """link 'foot'/inertial: the nearest named ancestor and the path below it."""
    path: list[str] = []
    current: Element | None = element
    while current is not None:
        name = current.get("name") or current.get("reference")
        if name:
            path.append(f"{local_name(current)} '{name}'")
            break
        path.append(local_name(current))
        current = current.getparent()
    return "/".join(reversed(path))
