"""Free bodies on the ground, written as URDFs: boxes, spheres, and how they lie."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import vi_contact as vc
from vi_contact.robot.parts import Array

STEPS = (0.1, 0.05, 0.01, 0.005)
G = 9.81


def box(
    folder: Path, size: tuple[float, float, float] = (0.4, 0.3, 0.2), mass: float = 2.0
) -> vc.Robot:
    """A free homogeneous box with a contact at each corner."""
    x, y, z = size
    inertia = f'ixx="{mass * (y * y + z * z) / 12}" iyy="{mass * (x * x + z * z) / 12}" '
    inertia += f'izz="{mass * (x * x + y * y) / 12}" ixy="0" ixz="0" iyz="0"'
    return free(folder, mass, inertia, f'<box size="{x} {y} {z}"/>')


def sphere(folder: Path, radius: float = 0.1, mass: float = 2.0) -> vc.Robot:
    """A free homogeneous ball."""
    i = 0.4 * mass * radius**2
    inertia = f'ixx="{i}" iyy="{i}" izz="{i}" ixy="0" ixz="0" iyz="0"'
    return free(folder, mass, inertia, f'<sphere radius="{radius}"/>')


def free(folder: Path, mass: float, inertia: str, shape: str) -> vc.Robot:
    file = folder / "body.urdf"
    file.write_text(
        f'<robot name="body"><link name="body"><inertial><mass value="{mass}"/>'
        f"<inertia {inertia}/></inertial><collision><geometry>{shape}</geometry></collision>"
        "</link></robot>"
    )
    return vc.load_robot(file, base="free")


def slope(angle: float, **options: float) -> vc.Ground:
    """A ground that falls along x by an angle."""
    return vc.Ground(normal=(np.sin(angle), 0.0, np.cos(angle)), **options)


def on_slope(height: float, angle: float) -> Array:
    """(7,) a body whose centre stands at a height over the sloped ground, turned with it."""
    n = np.array([np.sin(angle), 0.0, np.cos(angle)])
    return np.concatenate([height * n, [0.0, np.sin(angle / 2), 0.0, np.cos(angle / 2)]])


def body_link(name: str, shape: str, mass: float, joint_name: str = "") -> str:
    """A homogeneous body on a floating joint from the world."""
    numbers = [float(x) for x in re.findall(r'"([^"]*)"', shape) for x in x.split()]
    if "sphere" in shape:
        moments = [0.4 * mass * numbers[0] ** 2] * 3
    elif "box" in shape:
        squares = np.square(numbers)
        moments = (mass * (squares.sum() - squares) / 12.0).tolist()
    else:  # a capsule as its cylinder
        radius, length = numbers
        across = mass * (3.0 * radius**2 + length**2) / 12.0
        moments = [across, across, 0.5 * mass * radius**2]
    ixx, iyy, izz = moments
    return (
        f'<link name="{name}"><inertial><mass value="{mass}"/><inertia ixx="{ixx}" iyy="{iyy}" '
        f'izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial>'
        f"<collision><geometry>{shape}</geometry></collision></link>"
        f'<joint name="{joint_name or name}" type="floating"><parent link="world"/>'
        f'<child link="{name}"/></joint>'
    )


def mechanism(folder: Path, **bodies: tuple[str, float]) -> vc.Robot:
    """Free bodies, each a shape and a mass; in q they stand in the order of their names."""
    parts = [body_link(name, shape, mass) for name, (shape, mass) in bodies.items()]
    file = folder / "scene.urdf"
    file.write_text(f'<robot name="scene"><link name="world"/>{"".join(parts)}</robot>')
    return vc.load_robot(file)
