"""Pages of the viewer, taken apart, and a run to show."""

import base64
import gzip
import json
import re
import struct

import numpy as np
import umsgpack
from shapes import mechanism

import vi_contact as vc


def unpack(page):
    """The header of a page with its arrays and commands in place."""
    text = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1]
    content = gzip.decompress(base64.b64decode(text))
    first = 4 + struct.unpack("<I", content[:4])[0]

    def place(value):
        if "float32" in value:
            offset, length = value["float32"]
            return np.frombuffer(content, np.float32, length // 4, first + offset)
        if "bytes" in value:
            offset, length = value["bytes"]
            return content[first + offset : first + offset + length]
        return value

    data = json.loads(content[4:first], object_hook=place)
    data["commands"] = [umsgpack.unpackb(b"".join(pieces)) for pieces in data["commands"]]
    return data


def dropped_hopper(height, duration):
    """The Fly-Hopper on its rail, dropped with its hips held."""
    robot = vc.load_robot("fly_hopper_rail")
    sim = vc.Simulator(robot, time_step=0.01)
    q = sim.state.q.copy()
    q[0] += height
    sim.reset(q)
    return sim.run(duration, vc.JointCommand(q=[0.0, 0.0], kp=300.0, kd=5.0))


MARBLE = (-0.2, -0.15, 0.8)
"""Where a small obstacle hangs [m]."""


def pile_on_a_table(folder):
    """A simulator of a ball on a box on a table, at rest; beside them a marble; no ground."""
    scene = mechanism(
        folder, a=('<box size="0.4 0.4 0.2"/>', 1.0), b=('<sphere radius="0.1"/>', 2.0)
    )
    table = vc.Obstacle.box((1.0, 1.0, 0.5), (0.0, 0.0, 0.25), name="table")
    marble = vc.Obstacle.sphere(0.05, MARBLE, name="marble")
    sim = vc.Simulator(scene, 0.02, ground=None, obstacles=[table, marble])
    sim.reset([0.0, 0.0, 0.6, 0, 0, 0, 1, 0.05, 0.0, 0.8, 0, 0, 0, 1])
    return sim


def robot_of_two_parts(folder, extra):
    """A robot whose COLLADA mesh has two triangles, at y = -1 and 1; above it a box.

    The second triangle has an attribute more: extra, "TEXCOORD" or "COLOR".
    """
    width = {"TEXCOORD": 2, "COLOR": 3}[extra]
    more = _source("right-extra", width, " ".join(["0.5"] * width))
    also = f'<input semantic="{extra}" source="#right-extra" offset="1" set="0"/>'
    geometries = _geometry("left", -1.0, "", "")
    geometries += _geometry("right", 1.0, more, also)
    nodes = (f'<node id="n-{n}"><instance_geometry url="#{n}"/></node>' for n in ("left", "right"))
    (folder / "mesh.dae").write_text(
        '<?xml version="1.0" encoding="utf-8"?><COLLADA version="1.4.1" '
        'xmlns="http://www.collada.org/2005/11/COLLADASchema"><asset><up_axis>Z_UP</up_axis></asset>'
        f"<library_geometries>{geometries}</library_geometries><library_visual_scenes>"
        f'<visual_scene id="S">{"".join(nodes)}</visual_scene></library_visual_scenes>'
        '<scene><instance_visual_scene url="#S"/></scene></COLLADA>'
    )
    (folder / "parts.urdf").write_text(
        '<robot name="parts"><link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" '
        'izz="1" ixy="0" ixz="0" iyz="0"/></inertial><visual><geometry>'
        '<mesh filename="mesh.dae"/></geometry></visual><visual><origin xyz="0 0 2"/><geometry>'
        '<box size="0.5 0.5 0.5"/></geometry></visual></link></robot>'
    )
    return vc.load_robot(folder / "parts.urdf", base="free")


def _geometry(name, y, sources, inputs):
    """A triangle across x, with its normal at offset 1."""
    sources += _source(f"{name}-points", 3, f"0 {y} 0 0 {y} 1 1 {y} 0")
    sources += _source(f"{name}-normals", 3, "0 -1 0")
    return (
        f'<geometry id="{name}"><mesh>{sources}<vertices id="{name}-vertices">'
        f'<input semantic="POSITION" source="#{name}-points"/></vertices><triangles count="1">'
        f'<input semantic="VERTEX" source="#{name}-vertices" offset="0"/>'
        f'<input semantic="NORMAL" source="#{name}-normals" offset="1"/>{inputs}'
        "<p>0 0 1 0 2 0</p></triangles></mesh></geometry>"
    )


def _source(name, width, numbers):
    rows = len(numbers.split()) // width
    return (
        f'<source id="{name}"><float_array id="{name}-array" count="{rows * width}">{numbers}'
        f'</float_array><technique_common><accessor source="#{name}-array" count="{rows}" '
        f'stride="{width}">{PARAMETER * width}</accessor></technique_common></source>'
    )


PARAMETER = '<param name="X" type="float"/>'
