"""Visual and collision shapes: checked and resolved at load, meshes read when asked for."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import coal
import numpy as np
import pinocchio as pin
from lxml import etree

from vi_contact.errors import PinocchioError, ValueFormatError
from vi_contact.robot.checks import Checker
from vi_contact.robot.meshes import (
    Mesh,
    UnusableMeshError,
    mesh_of_file,
    reader_words,
    vertex_problem,
)
from vi_contact.robot.parts import Array
from vi_contact.robot.report import Finding, Outcome
from vi_contact.robot.xml import Document, Element, local_name

_log = logging.getLogger("vi_contact")

_SIZES = {
    "sphere": {"radius": 1},
    "box": {"size": 3},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
    "mesh": {},
}
"""Shapes that are read, and how many positive numbers each attribute has."""


LONGEST = 200
"""Characters of an address in a message."""


@dataclass(frozen=True)
class Collider:
    """A collision shape; of a mesh what counts in contact."""

    link: str
    body: int
    placement: pin.SE3
    """In the frame of the joint that carries the body, or in the world."""
    shape: coal.CollisionGeometry | Mesh


def colliders_of(model: pin.Model, geometry: pin.GeometryModel | None) -> tuple[Collider, ...]:
    """Of pinocchio's shapes."""
    return tuple(
        Collider(
            model.frames[shape.parentFrame].name,
            shape.parentJoint - 1,
            shape.placement,
            shape.geometry,
        )
        for shape in (geometry.geometryObjects if geometry is not None else ())
    )


@dataclass(frozen=True)
class MissingMesh:
    """A mesh that was not found, or could not be read."""

    link: str
    role: str
    """ "visual" or "collision"."""
    address: str
    """As the file says."""


def missing_words(meshes: Sequence[MissingMesh], named: int = 3) -> str:
    """How many meshes are missing, the first of them by name, and what to try."""
    addresses = list(dict.fromkeys(mesh.address for mesh in meshes))
    count = f"{len(meshes)} meshes were" if len(meshes) > 1 else "1 mesh was"
    first = ", ".join(map(_cut, addresses[:named])) + (", ..." if len(addresses) > named else "")
    return (
        f"{count} not found or could not be read: {first}; give the folder that holds their "
        "packages in package_dirs, or by --package-dir on the command line"
    )


def _cut(address: str) -> str:
    return address if len(address) <= LONGEST else f"{address[: LONGEST // 2]}..."


class Shapes:
    """Prepares the shapes of a checked document for pinocchio and builds its geometry models."""

    def __init__(self, checker: Checker, package_dirs: Sequence[Path]) -> None:
        self.checker = checker
        self.document = checker.document
        self.root = checker.root
        self.folders = [*package_dirs] + [
            Path(folder) for folder in os.environ.get("ROS_PACKAGE_PATH", "").split(":") if folder
        ]
        self.late_findings: list[Finding] = []
        self.missing: list[MissingMesh] = []
        self._capsules: list[tuple[Element, Element, float, float]] = []
        self._resolve = cache(self._resolve_uncached)
        colours = self._global_colours()
        for link in self.root.findall("link"):
            for element in link.findall("visual") + link.findall("collision"):
                if self._prepare(link, element):
                    self._colour(element, colours)
                else:
                    link.remove(element)

    def __getstate__(self) -> dict[str, Any]:
        """What `build` needs, in a form that pickles; elements by their place in the tree."""
        elements = list(self.root.iter())
        return {
            "path": self.document.path,
            "text": etree.tostring(self.root),
            "lines": [element.sourceline or 0 for element in elements],
            "capsules": [
                (elements.index(link), elements.index(element), radius, length)
                for link, element, radius, length in self._capsules
            ],
            "late_findings": self.late_findings,
            "missing": self.missing,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.root = etree.fromstring(state["text"], etree.XMLParser(recover=True, huge_tree=True))
        self.document = Document(state["path"], self.root)
        elements = list(self.root.iter())
        for element, line in zip(elements, state["lines"], strict=True):
            element.sourceline = line
        self._capsules = [(elements[i], elements[j], r, h) for i, j, r, h in state["capsules"]]
        self.late_findings = state["late_findings"]
        self.missing = state["missing"]

    def findings_so_far(self) -> list[Finding]:
        """What came to light when meshes were read."""
        return self.late_findings

    def missing_so_far(self) -> tuple[MissingMesh, ...]:
        """Meshes that were not found, and those that could not be read until now."""
        return tuple(self.missing)

    def bare_links(self) -> tuple[str, ...]:
        """Links that have lost all their collision shapes with their meshes."""
        lost = {mesh.link for mesh in self.missing if mesh.role == "collision"}
        links = [link for link in self.root.findall("link") if link.get("name") in lost]
        return tuple(str(link.get("name")) for link in links if link.find("collision") is None)

    # ------------------------------------------------------------ checks
    def _prepare(self, link: Element, element: Element) -> bool:
        """Checks a <visual> or <collision>; False if it has to be left out."""
        self.checker.origin(element)
        shapes = element.findall("geometry/*")
        if not shapes:
            return self._leave_out(element, "no shape in a <geometry>")
        shapes.sort(key=lambda shape: local_name(shape) not in _SIZES)  # those that are read first
        shape = shapes[0]
        kind = local_name(shape)
        for other in shapes[1:]:
            left_out = f"a <{local_name(other)}> beside the <{kind}> in a <geometry>: left out"
            physics = element.tag == "collision" and local_name(other) in _SIZES
            self.document.note(Outcome.IGNORED, element, left_out, physics)
            other.getparent().remove(other)
        if kind not in _SIZES:
            return self._leave_out(
                element, f"unknown shape <{kind}>; vi_contact reads {', '.join(_SIZES)}"
            )
        if not self._has_size(link, element, shape, kind):
            return False
        if kind == "mesh":
            return self._prepare_mesh(link, element, shape)
        if kind == "capsule":  # pinocchio's parser knows none: built as a cylinder first
            radius, length = (self.document.number(shape, key) for key in ("radius", "length"))
            self._capsules.append((link, element, radius, length))
            shape.tag = "cylinder"
        return True

    def _has_size(self, link: Element, element: Element, shape: Element, kind: str) -> bool:
        """Checks the measures of a shape; False if there is nothing of it to be drawn.

        With measures of zero a shape still touches: as a point, a line, a disc or a plate.
        """
        flat = []
        for attribute, count in _SIZES[kind].items():
            least = self.document.numbers(shape, attribute, count).min()
            given = f'<{kind} {attribute}="{shape.get(attribute)}">'
            if least < 0.0:
                message = f"{given} of link '{link.get('name')}' must not be negative"
                self.document.fail(ValueFormatError, shape, message)
            if least == 0.0:
                flat.append(given)
        if kind == "mesh" and not np.all(self._scale(shape)):
            flat.append(f'<mesh scale="{shape.get("scale")}">')
        if flat and element.tag == "visual":
            return self._leave_out(element, f"{' '.join(flat)} has no extent: not drawn")
        if flat:
            message = f"{' '.join(flat)} has no extent there: touches as a shape without volume"
            self.document.note(Outcome.APPROXIMATED, element, message, physics=True)
        return True

    def _scale(self, mesh: Element) -> Array:
        """(3,) scale of a mesh; a single number is one for all axes."""
        text = mesh.get("scale", "")
        if len(text.split()) == 1:
            mesh.set("scale", f"{text} {text} {text}")
            message = f'<mesh scale="{text}"> is one number: taken along all axes'
            self.document.note(Outcome.APPROXIMATED, mesh, message, physics=True)
        return self.document.vector(mesh, "scale", (1.0, 1.0, 1.0))

    def _prepare_mesh(self, link: Element, element: Element, mesh: Element) -> bool:
        address = (mesh.get("filename") or "").strip()
        if not address:
            return self._leave_out(element, "the mesh has no filename")
        found = self._resolve(address)
        if found is None:
            self.missing.append(MissingMesh(str(link.get("name")), element.tag, address))
            return self._leave_out(
                element, f"mesh not found: {_cut(address)}; give its folder in package_dirs"
            )
        mesh.set("filename", str(found))
        return True

    def _leave_out(self, element: Element, message: str) -> bool:
        physics = element.tag == "collision"
        self.document.note(Outcome.IGNORED, element, message, physics)
        return False

    # ------------------------------------------------------------ colours
    def _global_colours(self) -> dict[str, str]:
        """Colours by name from the materials beside the links, the first of each name."""
        colours: dict[str, str] = {}
        for material in self.root.findall("material"):
            colour = self._rgba(material)
            if colour:
                colours.setdefault(material.get("name", ""), colour)
            self.root.remove(material)
        return colours

    def _rgba(self, material: Element) -> str | None:
        element = material.find("color")
        if element is None:
            return None
        try:
            rgba = self.document.numbers(element, "rgba", 4)
        except ValueFormatError:
            written = element.get("rgba")
            self.document.note(Outcome.IGNORED, element, f"rgba of {written!r} is not read")
            return None
        if rgba.min() < 0.0 or rgba.max() > 1.0:
            self.document.note(Outcome.IGNORED, element, "colours outside 0..1: cut off there")
        return " ".join(f"{value:.6g}" for value in np.clip(rgba, 0.0, 1.0))

    def _colour(self, element: Element, colours: dict[str, str]) -> None:
        """Gives a picture its colour under a name of its own: urdfdom trips over shared names."""
        material = element.find("material")
        if material is None:
            return
        name = material.get("name")
        colour = self._rgba(material) if element.tag == "visual" else None
        if name and colour:
            colours.setdefault(name, colour)
        colour = colour or colours.get(name)
        for old in element.findall("material"):
            element.remove(old)
        if colour:
            new = etree.SubElement(element, "material", name=f"colour {colour}")
            etree.SubElement(new, "color", rgba=colour)

    # ------------------------------------------------------------ meshes
    def _resolve_uncached(self, address: str) -> Path | None:
        """File of a package://, file://, absolute or relative mesh address; %20 is a blank."""
        if address.startswith("file://"):
            address = address.removeprefix("file://")
        return self._search(address) or ("%" in address and self._search(unquote(address))) or None

    def _search(self, address: str) -> Path | None:
        here = self.document.path.resolve()
        if not address.startswith(("package://", "model://")):
            candidates = [Path(address)] if Path(address).is_absolute() else []
            candidates += [here.parent / address]
            candidates += [folder / address for folder in self.folders]
            return next((file.resolve() for file in candidates if _is_file(file)), None)
        inside = address.split("://", 1)[1].lstrip("/")
        package, _, rest = inside.partition("/")
        inner = os.path.normpath(rest)
        if package in ("", ".", "..") or inner.startswith("..") or os.path.isabs(inner):
            return None  # an address stays inside its package
        for folder in [*self.folders, *here.parents]:
            if _is_file(folder / inside):
                return (folder / inside).resolve()
            if folder.name == package and _is_file(folder / rest):
                return (folder / rest).resolve()
        return None

    def build(self, model: pin.Model, kind: pin.GeometryType) -> pin.GeometryModel:
        """Reads the meshes; one that cannot be read costs its shape and a line in the report."""
        known = len(self.missing)
        role = "collision" if kind == pin.GeometryType.COLLISION else "visual"
        try:
            geometry = self._build(model, kind)
        except (ValueError, RuntimeError):
            self._drop_unreadable(role)
            try:
                geometry = self._build(model, kind)
            except (ValueError, RuntimeError) as error:
                message = f"pinocchio could not build the {role} shapes: {error}"
                raise PinocchioError(self.document.path, message) from error
        for shape in list(geometry.geometryObjects):
            vertices = isinstance(shape.geometry, coal.BVHModelBase) and shape.geometry.vertices()
            problem = "" if vertices is False else vertex_problem(vertices)
            if problem:
                link_name = model.frames[shape.parentFrame].name
                self._note_mesh(link_name, role, shape.meshPath, problem, None)
                geometry.removeGeometryObject(shape.name)
        self._warn(model, known)
        return geometry

    def _build(
        self, model: pin.Model, kind: pin.GeometryType, root: Element | None = None
    ) -> pin.GeometryModel:
        """Links with the same mesh share what was read."""
        text = etree.tostring(self.root if root is None else root, encoding="unicode")
        loader = coal.CachedMeshLoader(coal.BV_OBBRSS)
        geometry = pin.buildGeomFromUrdfString(model, text, kind, mesh_loader=loader)
        role = "collision" if kind == pin.GeometryType.COLLISION else "visual"
        for link, element, radius, length in self._capsules:
            if element.tag != role:
                continue
            name = f"{link.get('name')}_{link.findall(role).index(element)}"
            if geometry.existGeometryName(name):
                shape = geometry.geometryObjects[geometry.getGeometryId(name)]
                shape.geometry = coal.Capsule(radius, length)
        return geometry

    def _warn(self, model: pin.Model, known: int) -> None:
        if len(self.missing) > known:
            _log.warning("robot '%s': %s", model.name, missing_words(self.missing[known:]))

    # ------------------------------------------------------------ what counts in contact
    def colliders(self, model: pin.Model) -> tuple[Collider, ...]:
        """The collision shapes; each mesh file is read once, or not at all if its hull is kept.

        pinocchio places the shapes; to its parser the meshes are boxes.
        """
        known = len(self.missing)
        meshes = self._collision_meshes()
        self._warn(model, known)
        root = copy.deepcopy(self.root)
        for mesh in root.iterfind("link/collision/geometry/mesh"):
            mesh.getparent().replace(mesh, etree.Element("box", size="1 1 1"))
        try:
            geometry = self._build(model, pin.GeometryType.COLLISION, root)
        except (ValueError, RuntimeError) as error:
            message = f"pinocchio could not build the collision shapes: {error}"
            raise PinocchioError(self.document.path, message) from error
        return tuple(
            replace(collider, shape=meshes.get(shape.name, collider.shape))
            for collider, shape in zip(
                colliders_of(model, geometry), geometry.geometryObjects, strict=True
            )
        )

    def _collision_meshes(self) -> dict[str, Mesh]:
        """By pinocchio's name of the shape; those that cannot be used are taken out."""
        read: dict[tuple[str, bytes], Mesh | str] = {}
        meshes: dict[str, Mesh] = {}
        for link in self.root.findall("link"):
            for element in link.findall("collision"):
                mesh = element.find("geometry/mesh")
                if mesh is None:
                    continue
                file = mesh.get("filename")
                scale = self.document.vector(mesh, "scale", (1.0, 1.0, 1.0))
                if (file, scale.tobytes()) not in read:
                    read[file, scale.tobytes()] = _read(Path(file), scale)
                found = read[file, scale.tobytes()]
                name = str(link.get("name"))
                if isinstance(found, str):
                    self._note_mesh(name, "collision", file, found, mesh.sourceline)
                    link.remove(element)
                else:
                    meshes[f"{name}_{link.findall('collision').index(element)}"] = found
        return meshes

    def _drop_unreadable(self, role: str) -> None:
        """Takes out the shapes whose meshes cannot be read one by one."""
        loader = coal.MeshLoader()
        for link in self.root.findall("link"):
            for element in link.findall(role):
                mesh = element.find("geometry/mesh")
                if mesh is None:
                    continue
                try:
                    loader.load(mesh.get("filename"), np.ones(3))
                except (ValueError, RuntimeError) as error:
                    problem = reader_words(error)
                    name = str(link.get("name"))
                    self._note_mesh(name, role, mesh.get("filename"), problem, mesh.sourceline)
                    link.remove(element)

    def _note_mesh(self, link: str, role: str, file: str, problem: str, line: int | None) -> None:
        message = f"mesh {Path(file).name} cannot be used: {problem}"
        element, place = f"link '{link}'/{role}", self.document.path.name
        physics = role == "collision"
        finding = Finding(Outcome.IGNORED, element, message, place, line, physics=physics)
        if finding not in self.late_findings:  # the shapes may be built again
            self.late_findings.append(finding)
            self.missing.append(MissingMesh(link, role, file))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, or with a character that no file can have
        return False


def _read(file: Path, scale: Array) -> Mesh | str:
    """The mesh, or why there is none."""
    try:
        return mesh_of_file(file, scale)
    except UnusableMeshError as error:
        return str(error)
