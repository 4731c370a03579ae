"""The loader: the only door to pinocchio's parser and to urchin.

The file is read once as XML. Our checks run first, so that every mistake has its own error; then
pinocchio builds the tree from a prepared copy (absolute mesh paths, repairs), and what pinocchio
drops is read here: transmissions through urchin, the extension block, friction.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import coal
import numpy as np
import pinocchio as pin
from lxml import etree

from vi_contact.errors import (
    PinocchioError,
    RobotFileNotFoundError,
    StrictImportError,
    UnsupportedJointError,
    ViContactError,
    nearest,
)
from vi_contact.robot import assembly
from vi_contact.robot.checks import Checker
from vi_contact.robot.contacts import declared_contacts, derived_contacts
from vi_contact.robot.extension import Extension, MotorSpec, read_extension
from vi_contact.robot.parts import Contact, JointKind, Loop, Mimic, Motor, Pose, Spring
from vi_contact.robot.report import Finding, Outcome
from vi_contact.robot.robot import Robot
from vi_contact.robot.tags import tag_findings
from vi_contact.robot.xml import Document, describe, parse

Base = Literal["free", "fixed"] | None


def bundled_robots() -> tuple[str, ...]:
    """Names of the robots that come with vi_contact."""
    folder = resources.files("vi_contact") / "urdf"
    return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir()))


def load_robot(
    path: str | os.PathLike[str],
    base: Base = None,
    package_dirs: Sequence[str | os.PathLike[str]] = (),
    contacts: Literal["auto", "none"] = "auto",
    strict: bool = False,
) -> Robot:
    """Loads a bundled robot by name, or any URDF file.

    base: "free" adds a floating base, "fixed" none; None: what the file says, else fixed when the
    root link is called "world" and free otherwise.
    package_dirs: folders that hold the packages of package:// addresses; folders above the file
    and ROS_PACKAGE_PATH are searched too.
    contacts: "auto" takes those declared in the <vi_contact> block, or else derives them from
    the collision shapes; "none" leaves them out.
    strict: what would be approximated, or ignored although it is physics, is an error.
    """
    if base not in (None, "free", "fixed"):
        raise ViContactError(f"base is {base!r}; it can be 'free', 'fixed' or None")
    if contacts not in ("auto", "none"):
        raise ViContactError(f"contacts is {contacts!r}; it can be 'auto' or 'none'")
    file = _find(path)
    document = parse(file)
    checker = Checker(Document(file, copy.deepcopy(document.root)))
    checker.run()
    extension = read_extension(document)
    findings = tag_findings(document) + checker.findings

    prepared = checker.document.root
    geometry = _Geometry(prepared, file, [Path(folder) for folder in package_dirs])
    findings += geometry.findings
    root_link = _root_link(prepared)
    base = base or _said(extension.base) or ("fixed" if root_link == "world" else "free")
    model = _build_model(prepared, file, base, extension)
    _apply_limits(model, checker)
    driven = _transmissions(prepared, file)
    findings += _transmission_findings(prepared, file, driven)
    motors = _apply_motors(model, extension.motors, driven)
    findings += _inertia_findings(model, file.name)

    declared = [motor.joint for motor in extension.motors]
    declared += [joint for joint in driven if model.existJointName(joint)]
    actuated = set(declared) or _movable(model)
    bodies = assembly.bodies_of(model)
    joints = assembly.joints_of(model, bodies, actuated - set(checker.mimics))
    bare = Robot(model.name, model, bodies, joints)

    def contact_source(robot: Robot) -> tuple[tuple[Contact, ...], tuple[Finding, ...]]:
        if contacts == "none":
            return (), ()
        if extension.contacts:
            return declared_contacts(robot, extension.contacts), ()
        return derived_contacts(robot, robot.collision_model, _link_friction(document))

    robot = Robot(
        name=model.name,
        model=model,
        bodies=bodies,
        joints=joints,
        loops=_loops(bare, extension),
        mimics=tuple(
            Mimic(bare.joint_names.index(name), bare.joint_names.index(source), factor, offset)
            for name, (source, factor, offset) in checker.mimics.items()
        ),
        motors=motors,
        springs=_springs(bare, extension),
        findings=tuple(findings),
        contact_source=contact_source,
        collision=lambda: geometry.build(model, pin.GeometryType.COLLISION),
        visual=lambda: geometry.build(model, pin.GeometryType.VISUAL),
        file=file.name,
        path=str(file.resolve()),
    )
    robot.neutral()  # a loop that cannot be closed is an error of the file: say so now
    if strict and robot.report.strict_findings:
        raise StrictImportError(file, [str(finding) for finding in robot.report.strict_findings])
    return robot


def from_pinocchio(
    model: pin.Model,
    collision_model: pin.GeometryModel | None = None,
    visual_model: pin.GeometryModel | None = None,
) -> Robot:
    """A robot from a pinocchio model; every movable joint is actuated.

    Contacts come from the collision shapes. The model is copied.
    """
    model = model.copy()
    if len(model.mimicking_joints):
        raise UnsupportedJointError(
            "the model was built with mimic joints; build it with mimic=False, or load the URDF "
            "with load_robot, which keeps them as constraints"
        )
    findings = _inertia_findings(model, "")
    bodies = assembly.bodies_of(model)
    joints = assembly.joints_of(model, bodies, _movable(model))
    return Robot(
        name=model.name,
        model=model,
        bodies=bodies,
        joints=joints,
        findings=tuple(findings),
        contact_source=lambda robot: derived_contacts(robot, collision_model, {}),
        collision=lambda: collision_model,
        visual=lambda: visual_model,
    )


# ---------------------------------------------------------------- files
def _find(path: str | os.PathLike[str]) -> Path:
    """A bundled name or a file."""
    file = Path(path)
    if file.is_file():
        return file
    if isinstance(path, str) and path in bundled_robots():
        return Path(str(resources.files("vi_contact") / "urdf" / path / f"{path}.urdf"))
    if file.is_dir():
        raise RobotFileNotFoundError(file, "this is a folder; name the .urdf file in it")
    raise RobotFileNotFoundError(
        file, f"no such file, nor a bundled robot; {nearest(str(path), bundled_robots())}"
    )


def _root_link(root: etree._Element) -> str:
    children = {joint.find("child").get("link") for joint in root.findall("joint")}
    return next(
        str(link.get("name")) for link in root.findall("link") if link.get("name") not in children
    )


def _said(base: str | None) -> Base:
    return "free" if base == "free" else "fixed" if base == "fixed" else None


# ---------------------------------------------------------------- the tree
def _build_model(root: etree._Element, file: Path, base: Base, extension: Extension) -> pin.Model:
    text = etree.tostring(root, encoding="unicode")
    names = {joint.get("name") for joint in root.findall("joint")}
    root_joint = "root_joint" if "root_joint" not in names else "vi_contact_root_joint"
    try:
        if base == "free":
            model = pin.buildModelFromXML(text, pin.JointModelFreeFlyer(), root_joint)
        else:
            model = pin.buildModelFromXML(text)
    except (ValueError, RuntimeError) as error:
        raise PinocchioError(file, f"pinocchio could not build the model: {error}") from error
    if extension.spherical:
        model = assembly.with_spherical_joints(model, extension.spherical)
    return model


def _apply_limits(model: pin.Model, checker: Checker) -> None:
    """Limits that count as not given become infinite."""
    for name in checker.unlimited:
        index = model.joints[model.getJointId(name)].idx_q
        model.lowerPositionLimit[index], model.upperPositionLimit[index] = -np.inf, np.inf
    for name in checker.no_effort:
        index = model.joints[model.getJointId(name)].idx_v
        model.lowerEffortLimit[index], model.upperEffortLimit[index] = -np.inf, np.inf
    for name in checker.no_velocity:
        index = model.joints[model.getJointId(name)].idx_v
        model.lowerVelocityLimit[index], model.upperVelocityLimit[index] = -np.inf, np.inf


def _inertia_findings(model: pin.Model, file: str) -> list[Finding]:
    """Completes the model's inertias; says which, and which massless links stay as they are."""
    completed = {i: (mass, moment) for i, mass, moment in assembly.complete_inertias(model)}
    findings = []
    for i in range(1, model.njoints):
        element = f"joint '{model.names[i]}'"
        if i in completed:
            mass, moment = completed[i]
            words = [f"a mass of {mass:g} kg"] if mass else []
            words += [f"a moment of inertia of {moment:g} kg m2"] if moment else []
            message = f"moves parts without inertia: given {' and '.join(words)}"
            findings.append(Finding(Outcome.APPROXIMATED, element, message, file, physics=True))
        elif model.inertias[i].mass == 0.0:
            message = "moves a massless link whose subtree has mass: kept as it is, exact"
            findings.append(Finding(Outcome.USED, element, message, file))
    return findings


def _movable(model: pin.Model) -> set[str]:
    """Every joint that an actuator can drive: all but floating ones."""
    return {
        model.names[i]
        for i in range(1, model.njoints)
        if model.joints[i].shortname() != "JointModelFreeFlyer"
    }


# ---------------------------------------------------------------- actuation
def _transmissions(root: etree._Element, file: Path) -> dict[str, float]:
    """Joints that a transmission drives, with the mechanical reduction, read by urchin."""
    elements = root.findall("transmission")
    if not elements:
        return {}
    from urchin import Transmission  # slow to import, and few files need it

    driven: dict[str, float] = {}
    for element in elements:
        transmission = Transmission._from_xml(element, str(file))
        reductions = [actuator.mechanicalReduction for actuator in transmission.actuators]
        reduction = next((value for value in reductions if value), None)
        for joint in transmission.joints:
            driven[joint.name] = float(reduction or 1.0)
    return driven


def _transmission_findings(
    root: etree._Element, file: Path, driven: Iterable[str]
) -> list[Finding]:
    joints = {joint.get("name"): joint for joint in root.findall("joint")}
    findings = []
    for name in driven:
        if name not in joints:
            message = f"drives the joint '{name}', which this file does not have"
        elif joints[name].get("type") == "fixed":
            message = f"drives the fixed joint '{name}'"
        else:
            continue
        findings.append(Finding(Outcome.IGNORED, "transmission", message, file.name))
    return findings


def _apply_motors(
    model: pin.Model, specs: Iterable[MotorSpec], reductions: dict[str, float]
) -> tuple[Motor, ...]:
    """Motors by joint index; their rotors become pinocchio's armature, gear^2 J_rotor."""
    motors = []
    for spec in specs:
        index = model.getJointId(spec.joint)
        gear = spec.gear_ratio if spec.gear_ratio is not None else reductions.get(spec.joint, 1.0)
        model.armature[model.joints[index].idx_v] = gear * gear * spec.rotor_inertia
        motors.append(
            Motor(
                index - 1,
                spec.torque_constant,
                spec.resistance,
                spec.voltage,
                spec.current_limit,
                gear,
                spec.rotor_inertia,
            )
        )
    return tuple(motors)


# ---------------------------------------------------------------- loops and springs
def _loops(robot: Robot, extension: Extension) -> tuple[Loop, ...]:
    loops = []
    for spec in extension.loops:
        ends = []
        for link, frame in zip(spec.links, spec.frames, strict=True):
            body, placement = robot.link_placement(link)
            ends.append((body, Pose.from_se3(placement * frame)))
        (parent, frame_parent), (child, frame_child) = ends
        loops.append(
            Loop(
                name=spec.name,
                kind=JointKind(spec.kind),
                parent=parent,
                child=child,
                frame_parent=frame_parent,
                frame_child=frame_child,
                axis=spec.axis,
                axis2=spec.axis2,
                links=spec.links,
            )
        )
    return tuple(loops)


def _springs(robot: Robot, extension: Extension) -> tuple[Spring, ...]:
    springs = []
    for spec in extension.springs:
        (body_1, at_1), (body_2, at_2) = (robot.link_placement(link) for link in spec.links)
        springs.append(
            Spring(
                spec.name,
                body_1,
                at_1.act(spec.points[0]),
                body_2,
                at_2.act(spec.points[1]),
                spec.stiffness,
                spec.rest_length,
                spec.damping,
            )
        )
    return tuple(springs)


# ---------------------------------------------------------------- contact friction
def _link_friction(document: Document) -> dict[str, float]:
    """Friction by link: Gazebo's mu1, and Bullet's lateral_friction, which wins."""
    friction = {}
    for gazebo in document.root.findall("gazebo"):
        mu = gazebo.find("mu1")
        if mu is not None and gazebo.get("reference") and mu.text:
            friction[str(gazebo.get("reference"))] = float(mu.text)
    for link in document.root.findall("link"):
        lateral = link.find("contact/lateral_friction")
        if lateral is not None:
            friction[str(link.get("name"))] = document.number(lateral, "value")
    return friction


# ---------------------------------------------------------------- shapes
class _Geometry:
    """Visual and collision shapes: mesh paths are resolved now, meshes read when asked for."""

    def __init__(self, root: etree._Element, file: Path, package_dirs: list[Path]) -> None:
        self.root = root
        self.file = file
        self.folders = package_dirs + [
            Path(folder) for folder in os.environ.get("ROS_PACKAGE_PATH", "").split(":") if folder
        ]
        self.findings: list[Finding] = []
        self.capsules: dict[tuple[str, int], tuple[float, float]] = {}
        self._resolve = cache(self._resolve_uncached)
        for link in root.findall("link"):
            for role in ("visual", "collision"):
                for element in link.findall(role):
                    self._prepare(link, element)

    def _prepare(self, link: etree._Element, element: etree._Element) -> None:
        mesh = element.find("geometry/mesh")
        capsule = element.find("geometry/capsule")
        if mesh is not None:
            address = mesh.get("filename") or ""
            found = self._resolve(address)
            if found is None:
                self.findings.append(
                    Finding(
                        Outcome.IGNORED,
                        describe(element),
                        f"mesh not found: {address}; give its folder in package_dirs",
                        self.file.name,
                        mesh.sourceline,
                        physics=element.tag == "collision",
                    )
                )
                link.remove(element)
            else:
                mesh.set("filename", str(found))
        elif capsule is not None:  # pinocchio's parser knows no capsule: built as a cylinder first
            index = list(link.findall(element.tag)).index(element)
            document = Document(self.file, self.root)
            size = (document.number(capsule, "radius"), document.number(capsule, "length"))
            self.capsules[(f"{element.tag}/{link.get('name')}", index)] = size
            capsule.tag = "cylinder"

    def _resolve_uncached(self, address: str) -> Path | None:
        """File of a package://, file://, absolute or relative mesh address."""
        if address.startswith("file://"):
            address = address.removeprefix("file://")
        if not address.startswith(("package://", "model://")):
            candidates = [Path(address)] if Path(address).is_absolute() else []
            candidates += [self.file.resolve().parent / address]
            candidates += [folder / address for folder in self.folders]
            return next((file.resolve() for file in candidates if file.is_file()), None)
        inside = address.split("://", 1)[1].lstrip("/")
        package, _, rest = inside.partition("/")
        for folder in [*self.folders, *self.file.resolve().parents]:
            if (folder / inside).is_file():
                return (folder / inside).resolve()
            if folder.name == package and (folder / rest).is_file():
                return (folder / rest).resolve()
        return None

    def build(self, model: pin.Model, kind: pin.GeometryType) -> pin.GeometryModel:
        text = etree.tostring(self.root, encoding="unicode")
        try:
            geometry = pin.buildGeomFromUrdfString(model, text, kind)
        except (ValueError, RuntimeError) as error:
            raise PinocchioError(self.file, f"a mesh could not be read: {error}") from error
        role = "collision" if kind == pin.GeometryType.COLLISION else "visual"
        for (owner, index), (radius, length) in self.capsules.items():
            tag, _, link = owner.partition("/")
            name = f"{link}_{index}"
            if tag == role and geometry.existGeometryName(name):
                shape = geometry.geometryObjects[geometry.getGeometryId(name)]
                shape.geometry = coal.Capsule(radius, length)
        return geometry
