"""Files and snapshots from elsewhere: only our errors, and nothing of this computer given away."""

import base64
import dataclasses
import gzip
import http.client
import importlib.util
import json
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from pages import robot_of_two_parts

import vi_contact as vc
from vi_contact import errors
from vi_contact.simulation.replay import load_failure, save_failure
from vi_contact.viewer.page import robot_page
from vi_contact.viewer.textures import WHITE, textures_of

FUZZ = Path(__file__).resolve().parents[1] / "benchmarks" / "fuzz.py"
SECRET = "the private words of somebody"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(40))


@pytest.fixture(scope="module")
def fuzz():
    """benchmarks/fuzz.py as a module."""
    spec = importlib.util.spec_from_file_location("fuzz", FUZZ)
    module = sys.modules["fuzz"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")  # of pinocchio and numpy, about what is in the files
@pytest.mark.parametrize(("part", "count"), [("urdf", 60), ("npz", 60), ("snapshot", 300)])
def test_damaged_input(fuzz, part, count, tmp_path):
    cases = fuzz.Cases(seed=7)
    make = {"urdf": fuzz.robot_case, "npz": fuzz.archive_case}.get(part)
    cases.run(part, count, make(tmp_path) if make else fuzz.snapshot_case())
    assert not cases.faults, "\n".join(cases.faults)
    assert cases.counts[f"{part}: accepted"] < sum(cases.counts.values()) == count


# ---------------------------------------------------------------- arrays
@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A trajectory with contacts of both kinds, and a step, saved."""
    folder = tmp_path_factory.mktemp("saved")
    hopper = vc.load_robot("fly_hopper")
    table = vc.Obstacle.box((2.0, 2.0, 0.1), (0.3, 0.0, -0.05), name="table")
    sim = vc.Simulator(hopper, obstacles=table, ground=vc.Ground(height=-0.2))
    sim.reset(hopper.on_ground(hopper.neutral()))
    sim.run(0.1).save(folder / "run.npz")
    save_failure(sim, folder / "step.npz")
    return folder


def changed(file, folder, name, value):
    with np.load(file) as arrays:
        values = dict(arrays)
    values[name] = value(values[name])
    np.savez(folder / "changed.npz", **values)
    return folder / "changed.npz"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("q", lambda q: q[:-1], r"'q' has shape .*, needed is \(11, any\)"),
        ("q", lambda q: q * np.nan, "'q' has numbers that are not finite"),
        ("tau", lambda tau: tau.astype("f4"), "'tau' has the type float32"),
        ("p_WB", lambda p: p[:, :2], "'p_WB' has shape"),
        ("quat_WB_xyzw", lambda quat: 2.0 * quat, "length is not one"),
        ("iterations", lambda n: -n - 1, "below zero"),
        ("status", lambda _: np.array(55), "'status' is 55"),
        ("time", lambda t: t[::-1], "goes back"),
        ("time_step", lambda _: np.array(0.0), "'time_step' is 0"),
        ("contacts_names", lambda n: np.concatenate([n[:1], n[:-1]]), "a name twice"),
        ("contacts_body_gaps", lambda g: g + np.array([0, 99, 0]), "none of"),
        ("contacts_body_gaps", lambda g: g + np.array([99, 0, 0]), "none of 0 to 10"),
        ("contacts_bodies", lambda b: b + 99.0, "none of -1 to"),
        ("contacts_bodies", lambda b: b + 0.5, "none of -1 to"),
        ("obstacles_shapes", lambda s: s + np.eye(1, 14, 1) * 9, "of no kind"),
        ("obstacles_shapes", lambda s: s - np.eye(1, 14, 2) * 9, "not above zero"),
        ("occurrences", lambda _: np.array([["x", "impact", "a", "0"]]), "could not convert"),
    ],
)
def test_arrays_of_a_trajectory_are_checked(saved, tmp_path, name, value, words):
    file = changed(saved / "run.npz", tmp_path, name, value)
    with pytest.raises(errors.TrajectoryFileError, match=f"changed.npz.*{words}"):
        vc.Trajectory.load(file)


def loop(**changes):
    def value(text):
        [part, *_] = parts = json.loads(str(text))
        part.update(changes)
        return np.array(json.dumps(parts))

    return value


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("state", lambda x: x[:-1], "another robot|made in another way"),
        ("state", lambda x: x * np.nan, "not finite|made in another way"),
        ("tau", lambda tau: np.append(tau, 1.0), "'tau' has shape"),
        ("loops", loop(parent=999), "joins bodies"),
        ("loops", loop(axis=[1.0, None, 0.0]), "numbers that cannot be"),
        ("loops", lambda _: np.array("[" * 100_000), "is not a step"),
        ("option_max_iterations", lambda _: np.array("a"), "max_iterations"),
        ("robot_path", lambda _: np.array("/none.urdf"), "none.urdf"),
    ],
)
def test_saved_steps_are_checked(saved, tmp_path, name, value, words):
    file = changed(saved / "step.npz", tmp_path, name, value)
    with pytest.raises(errors.TrajectoryFileError, match=f"(?s)changed.npz.*({words})"):
        load_failure(file)


def test_a_file_that_unpacks_to_more_than_the_memory(tmp_path, monkeypatch):
    from vi_contact.simulation import archive

    np.savez_compressed(tmp_path / "bomb.npz", q=np.zeros(1_000_000))
    monkeypatch.setattr(archive, "computer_memory", lambda: 1e6)
    with pytest.raises(errors.TrajectoryFileError, match="more than this computer's memory"):
        vc.Trajectory.load(tmp_path / "bomb.npz")


def test_an_array_that_promises_more_than_it_has(tmp_path):
    head = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (10**12,), }"
    head = head.replace(b"10**12", b"999999999999").ljust(127) + b"\n"
    with zipfile.ZipFile(tmp_path / "long.npz", "w") as file:
        file.writestr("q.npy", head)
    with pytest.raises(errors.TrajectoryFileError, match="'q' is cut off"):
        vc.Trajectory.load(tmp_path / "long.npz")


# ---------------------------------------------------------------- snapshots
@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (-28, 1e6, "bodies that are not there"),  # the pair
        (-27, 4e9, "bodies that are not there"),  # a link
        (-29, 9.0, "bodies that are not there"),  # the kind of features
        (0, np.nan, "not finite"),
        (5, 7.0, "quaternion"),
    ],
)
def test_numbers_of_a_snapshot_are_checked(place, value, words):
    robot = vc.load_robot("fly_hopper")
    table = vc.Obstacle.box((2.0, 2.0, 0.1), (0.0, 0.0, -0.05), name="table")
    sim = vc.Simulator(robot, ground=None, obstacles=table)
    sim.reset(robot.on_ground(robot.neutral()))
    sim.run(0.1)
    good = sim.snapshot()
    assert sim.info.contacts > 0
    numbers = np.array(good.numbers)
    numbers[place] = value
    with pytest.raises(errors.ArrayError, match=f"no state of this robot: .*{words}"):
        sim.restore(dataclasses.replace(good, numbers=numbers))
    sim.restore(good)
    assert np.isfinite(sim.step().q).all()


def test_the_work_of_a_step_is_bounded():
    from support import example

    robot = vc.load_robot(example("solo12.urdf"), base="free")
    sim = vc.Simulator(robot, gravity=(0.0, 0.0, -1e10))
    with pytest.raises(errors.StepFailedError, match="more iterations.*check gravity") as caught:
        sim.step()
    assert caught.value.status == "WORK_LIMIT"
    assert sim.state.time == 0.0


# ---------------------------------------------------------------- pictures
def with_picture(folder, name):
    """A robot in a folder whose mesh has the file `name` as its texture."""
    robot_of_two_parts(folder, "TEXCOORD")
    mesh = folder / "mesh.dae"
    picture = f'<library_images><image id="i"><init_from>{name}</init_from></image>'
    mesh.write_text(mesh.read_text().replace("<asset>", f"{picture}</library_images><asset>"))
    return vc.load_robot(folder / "parts.urdf", base="free")


def content_of(page):
    """What is packed in a page, commands and meshes."""
    return gzip.decompress(base64.b64decode(re.search(r'id="data">(.*?)</script>', page, re.S)[1]))


def test_a_picture_of_the_robot_is_in_its_page(tmp_path):
    (tmp_path / "skin.png").write_bytes(PICTURE)
    assert base64.b64encode(PICTURE) in content_of(robot_page(with_picture(tmp_path, "skin.png")))


@pytest.mark.parametrize("place", ["absolute", "above", "link", "here", "address"])
def test_a_texture_that_is_no_picture_of_the_robot(tmp_path, place, caplog):
    """Neither the words of a file elsewhere, nor those of one beside the robot, get into a page."""
    folder = tmp_path / "robot"
    folder.mkdir()
    secret = (folder if place == "here" else tmp_path) / "secret.png"
    secret.write_text(SECRET)
    (tmp_path / "private.png").write_bytes(PICTURE)
    (folder / "link.png").symlink_to(tmp_path / "private.png")
    names = {
        "absolute": str(secret),
        "above": "../private.png",
        "link": "link.png",
        "here": "secret.png",
        "address": f"file://{tmp_path / 'private.png'}",
    }
    told = content_of(robot_page(with_picture(folder, names[place])))
    for content in (SECRET.encode(), PICTURE):
        assert base64.b64encode(content)[:24] not in told
    assert "no picture" in caplog.text


@pytest.mark.parametrize("name", ["skin.png", "./skin.png", "../textures/skin.png"])
def test_textures_of_the_robot_and_its_package(tmp_path, name):
    folder = tmp_path / "pack" / "meshes"
    (tmp_path / "pack" / "textures").mkdir(parents=True)
    folder.mkdir()
    (tmp_path / "pack" / "package.xml").write_text("<package/>")
    file = folder / name
    file.write_bytes(PICTURE)
    text = f"<COLLADA><library_images><init_from>{name}</init_from></library_images></COLLADA>"
    pictures = textures_of(folder / "mesh.dae", text, str(tmp_path / "pack" / "robot.urdf"))
    assert set(pictures.values()) == {f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"}
    assert name in pictures
    other = textures_of(folder / "mesh.dae", text.replace(name, "../../out.png"), "")
    assert set(other.values()) == {WHITE}


def test_entities_of_a_mesh_reach_no_files(tmp_path):
    (tmp_path / "secret").write_text(SECRET)
    text = (
        f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]><COLLADA><library_images>'
        "<init_from>&x;</init_from></library_images></COLLADA>"
    )
    assert textures_of(tmp_path / "mesh.dae", text, "") == {}


def test_addresses_stay_inside_their_package(tmp_path):
    (tmp_path / "ball.stl").write_text("solid a\nendsolid a\n")
    (tmp_path / "pack").mkdir()
    file = tmp_path / "pack" / "robot.urdf"
    for address in (
        "package://../ball.stl",
        "package://pack/../ball.stl",
        "package:///../ball.stl",
    ):
        file.write_text(
            '<robot name="r"><link name="base"><visual><geometry>'
            f'<mesh filename="{address}"/></geometry></visual></link></robot>'
        )
        robot = vc.load_robot(file, base="fixed")
        assert "mesh not found" in str(robot.report), address


# ---------------------------------------------------------------- the live page
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("LOCALHOST:{port}", 200),
        ("[::1]:{port}", 200),
        ("evil.example:{port}", 421),
        ("evil.example", 421),
        ("127.0.0.1:1", 421),
        ("127.0.0.1.evil.example:{port}", 421),
        (None, 421),
    ],
)
def test_the_live_page_answers_to_this_computer_only(host, status):
    with vc.view(vc.load_robot("walker"), open_browser=False) as view:
        port = int(view.url.rstrip("/").rpartition(":")[2])
        for address in ("/",) if status == 200 else ("/", "/stream/1"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.putrequest("GET", address, skip_host=True)
            if host:
                connection.putheader("Host", host.format(port=port))
            connection.endheaders()
            assert connection.getresponse().status == status
            connection.close()
