"""The command line: one clear line and exit code 2 on errors, never a traceback."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import importlib.util
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from numpy.typing import ArrayLike

import vi_contact as vc
from vi_contact.errors import nearest
from vi_contact.simulation.simulator import Controller

EXAMPLES = """examples:
  vi-contact inspect fly_hopper                      report of a bundled robot
  vi-contact inspect robot.urdf --html robot.html    and its picture, to open in a browser
  vi-contact simulate robot.urdf --drop 0.2 --html run.html
  vi-contact view run.npz                            play a saved run in the browser
  vi-contact demo hop                                the main demo
vi-contact COMMAND --help shows more of each.
"""

INSPECT_EXAMPLES = """examples:
  vi-contact inspect fly_hopper
  vi-contact inspect robot.urdf --html robot.html
  vi-contact inspect robot.urdf --package-dir ~/ws/src --strict
"""

SIMULATE_EXAMPLES = """examples:
  vi-contact simulate jumper --drop 0.3 --html run.html       no torques; report with animation
  vi-contact simulate robot.urdf --gain 200,10 --html run.html    PD holds the start
  vi-contact simulate robot.urdf --gain 200,10 --gravity-compensation --base fixed
  vi-contact simulate robot.urdf --controller my_file.py:Controller --time 5 --save run.npz
  vi-contact simulate robot.urdf --view                       watch it live in the browser
  vi-contact simulate --replay failed_step.npz
A controller is a class: Controller(robot) gives a callable from state to torques.
"""

VIEW_EXAMPLES = """examples:
  vi-contact view run.npz                      what `vi-contact simulate --save run.npz` wrote
  vi-contact view run.npz --robot robot.urdf   where the robot's file has moved
  vi-contact view robot.urdf                   a robot as it stands
"""

DEMO_EXAMPLES = """examples:
  vi-contact demo                  lists them
  vi-contact demo hop              runs one
  vi-contact demo hop --help       shows its options
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vi-contact",
        description="URDF robots by discrete mechanics.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"vi_contact {vc.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, help: str, description: str, epilog: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=help,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    inspect = add(
        "inspect",
        "what a URDF contains and what became of every tag",
        "Prints the import report of a robot.",
        f"{INSPECT_EXAMPLES}bundled robots: {', '.join(vc.bundled_robots())}",
    )
    _add_robot_arguments(inspect)
    inspect.add_argument(
        "--strict", action="store_true", help="approximations and ignored physics are an error"
    )
    inspect.add_argument("--html", metavar="FILE", help="write a 3D picture that opens offline")
    inspect.set_defaults(run=_inspect)
    simulate = add(
        "simulate",
        "let a robot move, or repeat a step that failed",
        "Simulates a robot on flat ground, by default without torques.",
        SIMULATE_EXAMPLES,
    )
    _add_robot_arguments(simulate, optional=True)
    simulate.add_argument("--time", type=float, default=1.0, metavar="S", help="default: 1 s")
    simulate.add_argument("--step", type=float, default=0.01, metavar="S", help="default: 0.01 s")
    simulate.add_argument("--friction", type=float, default=0.8, help="of the ground; default: 0.8")
    simulate.add_argument(
        "--solver", choices=["newton", "ipopt"], default="newton", help="default: newton"
    )
    simulate.add_argument(
        "--drop", type=float, default=0.0, metavar="M", help="start this far above the ground"
    )
    control = simulate.add_mutually_exclusive_group()
    control.add_argument(
        "--gain",
        metavar="KP[,KD]",
        help="hold the start by PD with these gains, implicit in the step; KD: KP / 10",
    )
    control.add_argument(
        "--controller", metavar="MODULE:CLASS", help="a class of yours; MODULE may be a .py file"
    )
    simulate.add_argument(
        "--gravity-compensation", action="store_true", help="with --gain: carry the links' weight"
    )
    simulate.add_argument("--save", metavar="FILE", help="write the trajectory to an .npz file")
    simulate.add_argument("--html", metavar="FILE", help="write a report with the animation")
    simulate.add_argument("--plot", metavar="FILE", help="write plots to a .png, .pdf or .svg file")
    simulate.add_argument("--view", action="store_true", help="watch it live in the browser")
    simulate.add_argument(
        "--replay", metavar="FILE", help="instead, repeat the step that failed in this file"
    )
    simulate.set_defaults(run=_simulate)
    show = add(
        "view",
        "play a saved run, or show a robot, in the browser",
        "Serves a page on this computer until Ctrl-C.",
        VIEW_EXAMPLES,
    )
    show.add_argument("subject", metavar="RUN.npz|URDF", help="a saved run, or a robot")
    show.add_argument("--robot", metavar="URDF", help="the robot of the run, if its file has moved")
    show.add_argument(
        "--package-dir", action="append", default=[], metavar="DIR", help="as for inspect"
    )
    show.add_argument("--collisions", action="store_true", help="with the collision shapes")
    show.add_argument("--port", type=int, default=0, help="default: any that is free")
    show.add_argument("--no-browser", action="store_true", help="only print the address")
    show.set_defaults(run=_view)
    demo = add("demo", "run a demo; without a name, list them", "Runs a demo.", DEMO_EXAMPLES)
    demo.add_argument("name", metavar="NAME", nargs="?", help="no name lists the demos")
    demo.add_argument("options", nargs=argparse.REMAINDER, help="options of the demo itself")
    demo.set_defaults(run=_demo)
    return parser


def _add_robot_arguments(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    parser.add_argument(
        "urdf",
        metavar="URDF",
        nargs="?" if optional else None,
        help="a file, or the name of a bundled robot",
    )
    parser.add_argument("--base", choices=["free", "fixed"], help="default: as the file says")
    parser.add_argument(
        "--package-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="folder that holds the packages of package:// addresses; may be repeated",
    )
    parser.add_argument(
        "--no-contacts", action="store_true", help="leave out contacts and their meshes"
    )


def _load(arguments: argparse.Namespace, strict: bool = False) -> vc.Robot:
    return vc.load_robot(
        arguments.urdf,
        base=arguments.base,
        package_dirs=arguments.package_dir,
        contacts="none" if arguments.no_contacts else "auto",
        strict=strict,
    )


def _inspect(arguments: argparse.Namespace) -> None:
    robot = _load(arguments, arguments.strict)
    print(robot.report)
    if arguments.html:
        from vi_contact.viewer.page import robot_page, save_page

        file = save_page(arguments.html, robot_page(robot))
        print(f"\nPicture: {file.resolve()} (open it in a browser; no network needed)")


def _simulate(arguments: argparse.Namespace) -> None:
    if arguments.replay:
        _replay(arguments)
        return
    if arguments.urdf is None:
        raise vc.ViContactError("simulate needs a URDF, or --replay FILE")
    robot = _load(arguments)
    ground = vc.Ground(friction=arguments.friction)
    sim = vc.Simulator(robot, time_step=arguments.step, ground=ground, solver=arguments.solver)
    if arguments.drop:
        q = robot.on_ground(sim.state.q, arguments.drop)
        sim.reset(q)
    controller = _controller(arguments, robot, sim.state)
    progress = sys.stderr.isatty()
    if arguments.view:
        with vc.view(robot, sim.state.q) as view:
            print(f"live: {view.url}", flush=True)
            trajectory = sim.run(arguments.time, controller, progress=progress, viewer=view)
    else:
        trajectory = sim.run(arguments.time, controller, progress=progress)
    steps = len(trajectory.iterations)
    print(f"{robot}: {steps} steps to t = {trajectory.time[-1]:g} s")
    print(f"energy {trajectory.energy[0]:.6g} J to {trajectory.energy[-1]:.6g} J")
    print(f"joints and loops open by at most {trajectory.constraint_error.max():.2g} m or rad")
    if trajectory.contacts:
        depth = max(0.0, -min(contact.gap.min() for contact in trajectory.contacts.values()))
        print(f"{len(trajectory.impacts)} impacts, deepest contact {depth:.2g} m below the ground")
    if arguments.save:
        try:
            trajectory.save(arguments.save)
        except OSError as error:
            raise vc.ViContactError(f"cannot write {arguments.save}: {error.strerror}") from error
        print(f"saved: {arguments.save}")
    if arguments.plot:
        print(f"plots: {trajectory.plot(arguments.plot)}")
    if arguments.html:
        print(f"report: {trajectory.to_html(arguments.html).resolve()}")


def _controller(
    arguments: argparse.Namespace, robot: vc.Robot, start: vc.State
) -> Controller | None:
    """What the options ask for; None for no torques."""
    if arguments.controller:
        return _load_controller(arguments.controller, robot)
    if arguments.gravity_compensation and not arguments.gain:
        raise vc.ViContactError("--gravity-compensation needs --gain")
    if not arguments.gain:
        return None
    from vi_contact.controllers import JointPD, actuated_positions

    try:
        gains = [float(part) for part in arguments.gain.split(",")]
    except ValueError:
        gains = []
    if len(gains) not in (1, 2) or min(gains) < 0.0:
        raise vc.ViContactError(f"--gain {arguments.gain}: give KP or KP,KD, such as 200,10")
    kp, kd = gains[0], gains[-1] if len(gains) == 2 else 0.1 * gains[0]
    hold = actuated_positions(robot, start.q)
    carry = arguments.gravity_compensation
    return JointPD(robot, hold, kp=kp, kd=kd, gravity_compensation=carry)


def _load_controller(text: str, robot: vc.Robot) -> Controller:
    """An instance of module:Class, or file.py:Class, whose errors are told in one line."""
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise vc.ViContactError(f"--controller {text}: give MODULE:CLASS, such as my_file.py:Mine")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, "")  # modules of the current folder
            module = importlib.import_module(place)
        if not hasattr(module, name):
            known = [key for key, value in vars(module).items() if isinstance(value, type)]
            raise vc.ViContactError(f"{place} has no class '{name}'; {nearest(name, known)}")
        controller: Controller = getattr(module, name)(robot)
    except vc.ViContactError:
        raise
    except Exception as error:  # the code of a user may raise anything
        raise _told(f"cannot make the controller {text}", error) from error

    def call(state: vc.State) -> ArrayLike | vc.JointCommand:
        try:
            return controller(state)
        except Exception as error:  # the code of a user may raise anything
            raise _told(f"the controller {text} failed at t = {state.time:g} s", error) from error

    if hasattr(controller, "reset"):
        controller.reset()
    return call


def _told(what: str, error: Exception) -> vc.ViContactError:
    """An error in a user's code: what it was and where."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if len(frames) > 1 else ""
    message = " ".join(str(error).split())
    return vc.ViContactError(f"{what}: {type(error).__name__}: {message}{place}")


def _view(arguments: argparse.Namespace) -> None:
    folders = arguments.package_dir
    subject: vc.Robot | vc.Trajectory
    robot = vc.load_robot(arguments.robot, package_dirs=folders) if arguments.robot else None
    if arguments.subject.endswith(".npz"):
        subject = vc.Trajectory.load(arguments.subject)
    else:
        subject = vc.load_robot(arguments.subject, package_dirs=folders)
    with vc.view(
        subject,
        robot=robot,
        collisions=arguments.collisions,
        open_browser=not arguments.no_browser,
        port=arguments.port,
    ) as view:
        print(f"{view.url} (Ctrl-C ends it)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600.0)


def _replay(arguments: argparse.Namespace) -> None:
    from vi_contact.simulation.replay import load_failure

    sim, tau = load_failure(arguments.replay)
    print(f"{sim.robot}, time step {sim.time_step:g} s, t = {sim.state.time:g} s")
    sim.step(tau)
    info = sim.info
    print(
        f"the step converges: {info.iterations} iterations in {info.parts} parts by "
        f"{info.method}, {info.contacts} contacts closed, residual {info.residual:.2g} N s"
    )


def demos() -> dict[str, str]:
    """Name and first line of the docstring of every demo."""
    folder = resources.files("vi_contact") / "demos"
    lines = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            lines[file.name.removesuffix(".py")] = text.split("\n")[0]
    return lines


def _demo(arguments: argparse.Namespace) -> None:
    known = demos()
    if arguments.name is None:
        width = max(map(len, known))
        for name, line in known.items():
            print(f"{name:<{width}}  {line}")
        return
    if arguments.name not in known:
        hint = nearest(arguments.name, tuple(known))
        raise vc.ViContactError(f"there is no demo '{arguments.name}'; {hint}")
    module = importlib.import_module(f"vi_contact.demos.{arguments.name}")
    module.main(arguments.options)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except vc.ViContactError as error:
        print(f"vi-contact: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("vi-contact: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
