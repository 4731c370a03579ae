"""Reading robot XML with errors that say file, line, element and what was expected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
from lxml import etree

from vi_contact.errors import NotXmlError, RobotFileError, ValueFormatError
from vi_contact.robot.parts import Array

Element: TypeAlias = Any
"""An lxml element; lxml has no types of its own."""

_NAMESPACE_DOMAIN = 3  # libxml2's domain of errors about undeclared prefixes


@dataclass(frozen=True)
class Document:
    """A parsed file; every complaint goes through `fail` or `number` so that it names its place."""

    path: Path
    root: Element

    def fail(self, kind: type[RobotFileError], element: Element | None, message: str) -> NoReturn:
        raise kind(self.path, message, None if element is None else element.sourceline)

    def text(self, element: Element, attribute: str) -> str:
        value = element.get(attribute)
        if value is None:
            raise ValueFormatError(
                self.path,
                f"<{local_name(element)}> needs the attribute '{attribute}'",
                element.sourceline,
            )
        return str(value)

    def number(self, element: Element, attribute: str, default: float | None = None) -> float:
        """A finite number; required when there is no default."""
        if default is not None and element.get(attribute) is None:
            return default
        return float(self._numbers(element, attribute, 1)[0])

    def vector(
        self, element: Element | None, attribute: str, default: tuple[float, float, float]
    ) -> Array:
        """Three finite numbers, the default if the element or attribute is missing."""
        if element is None or element.get(attribute) is None:
            return np.array(default)
        return self._numbers(element, attribute, 3)

    def _numbers(self, element: Element, attribute: str, count: int) -> Array:
        text = self.text(element, attribute)
        try:
            values = [float(word) for word in text.split()]
        except ValueError:
            values = []
        if len(values) != count or not all(math.isfinite(value) for value in values):
            expected = "a finite number" if count == 1 else f"{count} finite numbers"
            raise ValueFormatError(
                self.path,
                f'<{local_name(element)} {attribute}="{text}"> should be {expected}',
                element.sourceline,
            )
        return np.array(values)


def parse(path: Path) -> Document:
    """Reads a URDF file; undeclared namespace prefixes (drake: is often one) are accepted."""
    content = path.read_bytes()
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
    hints = {
        "mujoco": "this is a MuJoCo MJCF file; vi_contact reads URDF",
        "sdf": "this is an SDFormat file; vi_contact reads URDF",
    }
    if root.tag != "robot":
        hint = hints.get(str(root.tag), "a URDF has the top element <robot>")
        raise NotXmlError(path, f"the top element is <{local_name(root)}>: {hint}", root.sourceline)
    if any("xacro" in str(prefix) for prefix in _prefixes(root)):
        raise NotXmlError(
            path,
            "this is a xacro file with macros left to expand; run `xacro FILE > FILE.urdf` first",
            root.sourceline,
        )
    return Document(path, root)


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
