"""The loader: the only door to pinocchio's parser and to urchin.

The file is read once as XML. Our checks run first, so that every mistake has its own error; then
pinocchio builds the tree from a prepared copy (absolute mesh paths, repairs), and what pinocchio
drops is read here: transmissions through urchin, the extension block, friction.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np
import pinocchio as pin
from lxml import etree

from vi_contact.errors import (
    ArgumentError,
    LoopClosureError,
    PinocchioError,
    RobotFileNotFoundError,
    StrictImportError,
    UnsupportedJointError,
    ValueFormatError,
    nearest,
)
from vi_contact.robot import assembly
from vi_contact.robot.checks import Checker, declare_world
from vi_contact.robot.contacts import ContactFinder, link_friction
from vi_contact.robot.extension import Extension, LoopSpec, MotorSpec, read_extension
from vi_contact.robot.inertias import check_model, inertia_findings, rotor_findings
from vi_contact.robot.parts import WORLD, JointKind, Loop, Mimic, Motor, Pose, Spring
from vi_contact.robot.report import Finding, Outcome
from vi_contact.robot.robot import Robot, check_size
from vi_contact.robot.shapes import Shapes, colliders_of, missing_words
from vi_contact.robot.tags import tag_findings
from vi_contact.robot.xml import Document, is_number, parse

_log = logging.getLogger("vi_contact")

Base = Literal["free", "fixed"] | None


def bundled_robots() -> tuple[str, ...]:
    """Names of the robots that come with vi_contact."""
    folder = resources.files("vi_contact") / "urdf"
    return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir()))


def load_robot(
    path: str | os.PathLike[str],
    base: Base = None,
    package_dirs: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    contacts: Literal["auto", "none"] = "auto",
    strict: bool = False,
) -> Robot:
    """Loads a bundled robot by name, or any URDF file.

    base: "free" adds a floating base, "fixed" none; None: what the file says, else fixed when the
    root link is called "world" and free otherwise.
    package_dirs: folders that hold the packages of package:// addresses; those above the file
    and ROS_PACKAGE_PATH are searched too.
    contacts: "auto" takes those declared in the <vi_contact> block, or else derives them from
    the collision shapes; "none" leaves them out.
    strict: what would be approximated, or ignored although it is physics, is an error.
    """
    if base not in (None, "free", "fixed"):
        raise ArgumentError("base", base, "'free', 'fixed' or None")
    if contacts not in ("auto", "none"):
        raise ArgumentError("contacts", contacts, "'auto' or 'none'")
    folders = _folders(package_dirs)
    file = _find(path)
    document = parse(file)
    tags = tag_findings(document)
    declare_world(document)
    checker = Checker(Document(file, copy.deepcopy(document.root), forgiving=True))
    checker.run()
    extension = read_extension(document)
    extension.spherical += checker.spherical
    friction, friction_findings = link_friction(document)
    shapes = Shapes(checker, folders)
    findings = document.findings + tags + checker.findings + friction_findings

    prepared = checker.root
    root_link = _root_link(prepared)
    base = base or _said(extension.base) or ("fixed" if root_link == "world" else "free")
    model = _build_model(prepared, file, base, extension)
    check_size(model)
    _apply_limits(model, checker)
    driven, reduction_findings = _transmissions(document)
    findings += reduction_findings + _transmission_findings(document, driven)
    motors = _apply_motors(model, extension.motors, driven)
    findings += inertia_findings(model, file.name)

    declared = [motor.joint for motor in extension.motors]
    declared += [joint for joint in driven if model.existJointName(joint)]
    actuated = set(declared) or _movable(model)
    bodies = assembly.bodies_of(model)
    joints = assembly.joints_of(model, bodies, actuated - set(checker.mimics))
    bare = Robot(model.name, model, bodies, joints)

    find_contacts = ContactFinder(tuple(extension.contacts), friction)
    loops, springs = _loops(bare, extension), _springs(bare, extension)
    findings += _same_body_findings(loops, springs, file.name)
    for loop in _without_axis(extension.loops):
        message = "no <axis>: x of its frames is taken"
        place = f"loop_joint '{loop.name}'"
        findings.append(Finding(Outcome.CHECK, place, message, file.name, loop.line))
    robot = Robot(
        name=model.name,
        model=model,
        bodies=bodies,
        joints=joints,
        loops=loops,
        mimics=tuple(
            Mimic(bare.joint_names.index(name), bare.joint_names.index(source), factor, offset)
            for name, (source, factor, offset) in checker.mimics.items()
        ),
        motors=motors,
        springs=springs,
        findings=tuple(findings),
        contact_source=find_contacts if contacts == "auto" else None,
        collision=partial(shapes.build, model, pin.GeometryType.COLLISION),
        visual=partial(shapes.build, model, pin.GeometryType.VISUAL),
        late_findings=shapes.findings_so_far,
        file=file.name,
        path=str(file.resolve()),
        friction=friction,
        missing=shapes.missing_so_far,
        colliders=partial(shapes.colliders, model),
    )
    _warn_of_meshes(robot, shapes, contacts == "auto" and not extension.contacts)
    try:
        robot.neutral()  # a loop that cannot be closed is an error of the file: say so now
    except LoopClosureError as error:
        line = next((loop.line for loop in extension.loops if loop.name in error.gaps), None)
        place = f"{file}:{line}" if line else str(file)
        advice = ""
        for loop in _without_axis(loop for loop in extension.loops if loop.name in error.gaps):
            advice = (
                f"loop joint '{loop.name}' is {loop.kind.name.lower()} and has no <axis>, which "
                'makes it x of its frames: give it one, as <axis xyz="0 1 0"/>'
            )
        raise LoopClosureError(error.robot, error.gaps, error.fixed, place, advice) from None
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
    if not isinstance(model, pin.Model):
        raise ArgumentError("model", model, "a pinocchio.Model; load_robot reads files")
    for name, shapes in (("collision_model", collision_model), ("visual_model", visual_model)):
        if not isinstance(shapes, pin.GeometryModel | None):
            raise ArgumentError(name, shapes, "a pinocchio.GeometryModel or None")
    model = model.copy()
    if len(model.mimicking_joints):
        raise UnsupportedJointError(
            "the model was built with mimic joints; build it with mimic=False, or load the URDF "
            "with load_robot, which keeps them as constraints"
        )
    check_size(model)
    check_model(model)
    findings = rotor_findings(model) + assembly.limit_findings(model) + inertia_findings(model, "")
    bodies = assembly.bodies_of(model)
    joints = assembly.joints_of(model, bodies, _movable(model))
    return Robot(
        name=model.name,
        model=model,
        bodies=bodies,
        joints=joints,
        findings=tuple(findings),
        contact_source=ContactFinder(),
        collision=partial(_given, collision_model),
        visual=partial(_given, visual_model),
        colliders=partial(colliders_of, model, collision_model),
    )


def _given(geometry: pin.GeometryModel | None) -> pin.GeometryModel | None:
    return geometry


# ---------------------------------------------------------------- files
def _find(path: str | os.PathLike[str]) -> Path:
    """A bundled name or a file."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise ArgumentError("path", path, f"a .urdf file or one of {', '.join(bundled_robots())}")
    file = Path(path)
    try:
        if file.is_file():
            return file
    except (OSError, ValueError) as error:  # too long, or with a character no file can have
        raise RobotFileNotFoundError(str(path)[:80], f"not the name of a file: {error}") from None
    if isinstance(path, str) and path in bundled_robots():
        return Path(str(resources.files("vi_contact") / "urdf" / path / f"{path}.urdf"))
    if file.is_dir():
        raise RobotFileNotFoundError(file, "this is a folder; name the .urdf file in it")
    raise RobotFileNotFoundError(
        file, f"no such file, nor a bundled robot; {nearest(str(path), bundled_robots())}"
    )


def _folders(package_dirs: Sequence[str | os.PathLike[str]] | str | os.PathLike[str]) -> list[Path]:
    """Folders of packages; a single one need not be in a list."""
    listed = [package_dirs] if isinstance(package_dirs, str | os.PathLike) else package_dirs
    try:
        return [Path(folder) for folder in listed]
    except TypeError:
        raise ArgumentError("package_dirs", package_dirs, "a folder or a list of them") from None


def _root_link(root: etree._Element) -> str:
    children = {joint.find("child").get("link") for joint in root.findall("joint")}
    return next(
        str(link.get("name")) for link in root.findall("link") if link.get("name") not in children
    )


def _said(base: str | None) -> Base:
    return "free" if base == "free" else "fixed" if base == "fixed" else None


def _warn_of_meshes(robot: Robot, shapes: Shapes, contacts_by_shapes: bool) -> None:
    """One line in the log if meshes were not found, and who will pass through the ground for it."""
    if not shapes.missing:
        return
    bare = [link for link in shapes.bare_links() if robot.link_placement(link)[0] != WORLD]
    through = ""
    if bare and contacts_by_shapes:
        names = ", ".join(bare[:4]) + (f", ... ({len(bare)} in all)" if len(bare) > 4 else "")
        have = (
            "has no contact shape and passes"
            if len(bare) == 1
            else "have no contact shapes and pass"
        )
        through = f". {names} {have} through the ground"
    _log.warning("robot '%s': %s%s", robot.name, missing_words(shapes.missing), through)


# ---------------------------------------------------------------- the tree
def _build_model(root: etree._Element, file: Path, base: Base, extension: Extension) -> pin.Model:
    text = etree.tostring(root, encoding="unicode")
    names = {joint.get("name") for joint in root.findall("joint")}
    root_joint = "root_joint"
    while root_joint in names:
        root_joint = f"vi_contact_{root_joint}"
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


def _movable(model: pin.Model) -> set[str]:
    """Every joint that an actuator can drive: all but floating ones."""
    return {
        model.names[i]
        for i in range(1, model.njoints)
        if model.joints[i].shortname() != "JointModelFreeFlyer"
    }


# ---------------------------------------------------------------- actuation
def _transmissions(document: Document) -> tuple[dict[str, float], list[Finding]]:
    """Joints that a transmission drives, with the mechanical reduction, read by urchin."""
    elements = document.root.findall("transmission")
    findings: list[Finding] = []
    if not elements:
        return {}, findings
    from urchin import Transmission  # slow to import, and few files need it

    driven: dict[str, float] = {}
    for element in map(copy.deepcopy, elements):
        for reduction in list(element.iter("mechanicalReduction")):
            if not is_number(reduction.text or ""):
                place, line = "transmission/mechanicalReduction", reduction.sourceline
                message = f"'{(reduction.text or '').strip()}' is no number: taken as not given"
                finding = Finding(Outcome.IGNORED, place, message, document.path.name, line, True)
                findings.append(finding)
                reduction.getparent().remove(reduction)
                continue
            if document.content_number(reduction) == 0.0:
                document.fail(ValueFormatError, reduction, "a mechanicalReduction of 0")
        for joint in element.findall("joint"):
            document.text(joint, "name")
        transmission = Transmission._from_xml(element, str(document.path))
        common = [actuator.mechanicalReduction for actuator in transmission.actuators]
        common += [float(reduction.text) for reduction in element.findall("mechanicalReduction")]
        for joint, tag in zip(transmission.joints, element.findall("joint"), strict=True):
            own = [float(reduction.text) for reduction in tag.findall("mechanicalReduction")]
            reduction = next((value for value in own + common if value), 1.0)
            driven[joint.name] = abs(reduction)  # a sign turns the motor round, which is its own
    return driven, findings


def _transmission_findings(document: Document, driven: Iterable[str]) -> list[Finding]:
    joints = {joint.get("name"): joint for joint in document.root.findall("joint")}
    findings = []
    for name in driven:
        if name not in joints:
            message = f"drives the joint '{name}', which this file does not have"
        elif joints[name].get("type") == "fixed":
            message = f"drives the fixed joint '{name}'"
        else:
            continue
        findings.append(Finding(Outcome.IGNORED, "transmission", message, document.path.name))
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


def _without_axis(loops: Iterable[LoopSpec]) -> list[LoopSpec]:
    """Loop joints that have an axis, but were not given one."""
    kinds = (JointKind.REVOLUTE, JointKind.PRISMATIC, JointKind.UNIVERSAL)
    return [loop for loop in loops if loop.kind in kinds and not loop.axis_given]


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


def _same_body_findings(
    loops: Iterable[Loop], springs: Iterable[Spring], file: str
) -> list[Finding]:
    """Loops and springs that join a body to itself do nothing, or cannot be closed."""
    idle = [f"loop_joint '{loop.name}'" for loop in loops if loop.parent == loop.child]
    idle += [f"spring '{spring.name}'" for spring in springs if spring.body_1 == spring.body_2]
    message = "both ends are on the same body: no motion changes it"
    return [Finding(Outcome.CHECK, element, message, file) for element in idle]
