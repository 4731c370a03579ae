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
