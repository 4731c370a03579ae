"""Reading robot XML with errors that say file, line, element and what was expected.

Slips that other readers of URDF pass over are passed over here too, and are findings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from vi_contact.robot.report import Finding, Outcome

Element: TypeAlias = Any
"""An lxml element; lxml has no types of its own."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""What urdfdom reads as a number; Python would also take 1_0 and the digits of other scripts."""

_SMALLEST = 2.3e-308
"""Below the smallest normal double, which some C++ libraries refuse to read: taken as zero."""

_SEPARATORS = re.compile(r"[,;]|\.(?=\.*(\s|$))")
"""What some write about numbers, as 0.07, or 1.57. with a stop; Bullet reads them."""

_XACRO = re.compile(r"\$[({]")
"""Begins what xacro would have replaced."""

_XACRO_TAGS = ("macro", "include", "property", "arg", "if", "unless", "insert_block", "call")
"""xacro's own tags; another with its prefix calls a macro."""

LARGEST = 1e15
"""Numbers above this are mistakes, and would overflow in products (SI units)."""

_UNBOUNDED = (
    *("lower", "upper", "effort", "velocity", "voltage", "current_limit"),
    *("damping", "friction", "lateral_friction", "mu1", "axis", "axis2"),
)
"""Attributes and tags where some write a huge number for none, or where only ratios count."""

_NAMESPACE_DOMAIN = 3  # libxml2's domain of errors about undeclared prefixes

_DECLARATION = re.compile(r"<\?xml\b.*?\?>", re.DOTALL)

_ENCODING = re.compile(rb"""<\?xml\b[^>]*\bencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")

_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)


def _as_lines(match: re.Match[Any]) -> Any:
    """What keeps the numbers of the lines after text that is taken out."""
    text = match[0]
    newline = "\n" if isinstance(text, str) else b"\n"
    return newline * text.count(newline)


def _without_declaration(content: bytes) -> bytes:
    """In UTF-8; characters that are not of the encoding are replaced."""
    declared = _ENCODING.search(content)
    try:
        text = content.decode(declared[1].decode() if declared else "utf-8", errors="replace")
    except LookupError:
        text = content.decode("utf-8", errors="replace")
    return _DECLARATION.sub(_as_lines, text).encode()


_REPAIRS: Mapping[int, tuple[str, Callable[[bytes], bytes]]] = {
    etree.ErrorTypes.ERR_UNKNOWN_VERSION: ("read as 1.0", _without_declaration),
    etree.ErrorTypes.ERR_RESERVED_XML_NAME: ("left out", _without_declaration),
    etree.ErrorTypes.ERR_INVALID_ENCODING: ("replaced", _without_declaration),
    etree.ErrorTypes.ERR_HYPHEN_IN_COMMENT: (
        "left out with all comments",
        lambda content: _COMMENT.sub(_as_lines, content),
    ),
    etree.ErrorTypes.ERR_DOCUMENT_END: (
        "zero bytes, left out",
        lambda content: content.rstrip(b"\0"),
    ),
}
"""What is done about errors of XML that leave no doubt about the robot; others do not see them."""


@dataclass(frozen=True)
class Document:
    """A parsed file; every complaint goes through `fail` so that it names its place."""

    path: Path
    root: Element
    forgiving: bool = False
    """Whether numbers with a slip that leaves no doubt are taken; findings say which."""
    findings: list[Finding] = field(default_factory=list)
    """What was passed over."""

    def fail(self, kind: type[RobotFileError], element: Element | None, message: str) -> NoReturn:
        raise kind(self.path, message, None if element is None else element.sourceline)

    def note(self, outcome: Outcome, element: Element, message: str, physics: bool = False) -> None:
        """A finding about an element."""
        line = element.sourceline
        place = describe(element)
        self.findings.append(Finding(outcome, place, message, self.path.name, line, physics))

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
        unbounded = attribute in _UNBOUNDED or local_name(element) in _UNBOUNDED
        self._check_size(element, f' {attribute}="{text}"', values, unbounded)
        element.set(attribute, _written(values))
        return values

    def content_number(self, element: Element) -> float:
        """A finite number between an element's tags."""
        text = (element.text or "").strip()
        values = self._read(element, "", text, 1)
        self._check_size(element, "", values, local_name(element) in _UNBOUNDED)
        return float(values[0])

    def _check_size(self, element: Element, shown: str, values: Array, unbounded: bool) -> None:
        if not unbounded and np.abs(values).max() > LARGEST:
            message = f"<{local_name(element)}{shown}> has a number above {LARGEST:g}: check its "
            self.fail(ValueFormatError, element, f"{message}units")

    def _read(self, element: Element, shown: str, text: str, count: int) -> Array:
        words = text.split()
        if self.forgiving and not all(map(_NUMBER.fullmatch, words)):
            plain = _SEPARATORS.sub(" ", text).split()
            if len(plain) == count and all(map(_NUMBER.fullmatch, plain)):
                words = plain
                message = f"<{local_name(element)}{shown}>: read as {' '.join(plain)}"
                self.note(Outcome.APPROXIMATED, element, message, physics=True)
        if self.forgiving and 1 < count < len(words) and all(map(_NUMBER.fullmatch, words)):
            words = words[:count]
            message = f"<{local_name(element)}{shown}>: the first {count} numbers are taken"
            self.note(Outcome.APPROXIMATED, element, message, physics=True)
        values = [float(word) for word in words if _NUMBER.fullmatch(word)]
        if len(values) == len(words) == count and all(map(math.isfinite, values)):
            return np.array([value if abs(value) >= _SMALLEST else 0.0 for value in values])
        expected = "a finite number" if count == 1 else f"{count} finite numbers"
        content = "" if shown else f" with the content '{text}'"
        message = f"<{local_name(element)}{shown}>{content} should be {expected}"
        if local_name(element) == "limit" and "inf" in text.lower():
            message += "; for no limits leave lower and upper out, for one side write a large one"
        if _XACRO.search(text):
            message += "; xacro has left this as it was: run `xacro FILE > EXPANDED.urdf` first"
        self.fail(ValueFormatError, element, message)


def _written(values: Array) -> str:
    return " ".join(repr(float(value)) for value in values)


def parse(path: Path) -> Document:
    """Reads a URDF file; undeclared namespace prefixes (drake: is often one) are accepted."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RobotFileNotFoundError(path, f"cannot be read: {error.strerror}") from None
    root, findings = _parse(path, content)
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
    if _is_unexpanded(root):
        raise NotXmlError(
            path,
            "this is a xacro file with macros left to expand; run `xacro FILE > FILE.urdf` first",
            root.sourceline,
        )
    return Document(path, root, findings=findings)


def _parse(path: Path, content: bytes) -> tuple[Element, list[Finding]]:
    """The top element, and what had to be passed over to read it."""
    options = {"remove_comments": True, "remove_pis": True, "resolve_entities": False}
    findings: list[Finding] = []
    while True:
        parser = etree.XMLParser(**options)
        try:
            return etree.fromstring(content, parser), findings
        except etree.XMLSyntaxError as error:
            log = [entry for entry in parser.error_log if entry.domain != _NAMESPACE_DOMAIN]
            errors = [entry for entry in log if entry.level > etree.ErrorLevels.WARNING]
            if not errors:
                lenient = etree.XMLParser(**options, recover=True)
                return etree.fromstring(content, lenient), findings
            words, repair = _REPAIRS.get(errors[0].type, ("", bytes))
            repaired = repair(content)
            if repaired == content:
                raise NotXmlError(path, f"not well-formed XML: {error.msg}", error.lineno) from None
            content = repaired
            message, line = f"{errors[0].message}: {words}", errors[0].line
            findings.append(Finding(Outcome.IGNORED, "XML", message, path.name, line, physics=True))


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


def is_xacro(element: Element) -> bool:
    """Whether xacro should have replaced an element."""
    return "xacro" in local_name(element).rpartition(":")[0]


def _is_unexpanded(root: Element) -> bool:
    """Whether xacro has yet to make the robot.

    Calls of macros that xacro did not know are left over in what it writes, and are no reason to
    refuse the robot about them.
    """
    left = [element for element in root.iter(etree.Element) if is_xacro(element)]
    calls = [element for element in left if local_name(element).split(":")[1] not in _XACRO_TAGS]
    return bool(left) and (len(calls) < len(left) or root.find("link") is None)


def is_number(text: str) -> bool:
    """Whether urdfdom would read a number there."""
    return _NUMBER.fullmatch(text.strip()) is not None


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
