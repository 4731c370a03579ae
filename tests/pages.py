"""Pages of the viewer, taken apart, and a run to show."""

import base64
import gzip
import json
import re
import struct

import numpy as np
import umsgpack

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
            return umsgpack.unpackb(content[first + offset : first + offset + length])
        return value

    return json.loads(content[4:first], object_hook=place)


def dropped_hopper(height, duration):
    """The Fly-Hopper on its rail, dropped with its hips held."""
    robot = vc.load_robot("fly_hopper_rail")
    sim = vc.Simulator(robot, time_step=0.01)
    q = sim.state.q.copy()
    q[0] += height
    sim.reset(q)
    return sim.run(duration, vc.JointCommand(q=[0.0, 0.0], kp=300.0, kd=5.0))
