"""Small URDFs written for tests."""

from __future__ import annotations

from pathlib import Path

INERTIAL = (
    '<inertial><mass value="1"/>'
    '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>'
)


def link(name: str, body: str = INERTIAL) -> str:
    return f'<link name="{name}">{body}</link>\n'


def joint(
    name: str,
    parent: str,
    child: str,
    kind: str = "revolute",
    body: str = "",
    axis: str = "0 1 0",
    origin: str = "0 0 0",
    limit: str = '<limit lower="-1" upper="1" effort="10" velocity="5"/>',
) -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{origin}"/><axis xyz="{axis}"/>{limit}{body}</joint>\n'
    )


def robot(*parts: str, name: str = "test") -> str:
    return f'<robot name="{name}">\n{"".join(parts)}</robot>\n'


def extension(body: str) -> str:
    return f"<vi_contact>{body}</vi_contact>\n"


def pair(*extra: str, **options: str) -> str:
    """Two links and a joint, with further parts."""
    return robot(link("base"), link("arm"), joint("hinge", "base", "arm", **options), *extra)


def loop_square(kind: str) -> str:
    """World, then three bars of a planar square (axis y), closed at the last corner by a loop."""
    wide = '<limit lower="-3" upper="3" effort="10" velocity="5"/>'
    return robot(
        link("world", ""),
        link("a"),
        link("b"),
        link("c"),
        joint("j_a", "world", "a", limit=wide, origin="0 0 0"),
        joint("j_b", "a", "b", limit=wide, origin="0 0 1"),
        joint("j_c", "world", "c", limit=wide, origin="1 0 0"),
        extension(
            f'<loop_joint name="loop" type="{kind}"><link1 link="b" xyz="1 0 0"/>'
            '<link2 link="c" xyz="0 0 1"/><axis xyz="0 1 0"/></loop_joint>'
        ),
    )


def write(folder: Path, text: str, name: str = "robot.urdf") -> Path:
    file = folder / name
    file.write_text(text)
    return file
