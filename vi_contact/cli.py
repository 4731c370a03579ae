"""The command line: one clear line and exit code 2 on errors, never a traceback."""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from collections.abc import Sequence
from importlib import resources

import vi_contact as vc
from vi_contact.errors import nearest

EXAMPLES = """examples:
  vi-contact inspect fly_hopper                      report of a bundled robot
  vi-contact inspect robot.urdf --html robot.html    and its picture, to open in a browser
  vi-contact inspect robot.urdf --package-dir ~/ws/src --strict
  vi-contact simulate robot.urdf --time 5 --step 0.01 --save run.npz
  vi-contact demo                                    lists the demos
  vi-contact demo pd_joint_0 --plot pd.png           runs one, with its own options
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
    inspect = commands.add_parser(
        "inspect",
        help="what a URDF contains and what became of every tag",
        description="Prints the import report of a robot.",
        epilog=f"bundled robots: {', '.join(vc.bundled_robots())}",
    )
    _add_robot_arguments(inspect)
    inspect.add_argument(
        "--strict", action="store_true", help="approximations and ignored physics are an error"
    )
    inspect.add_argument("--html", metavar="FILE", help="write a 3D picture that opens offline")
    inspect.set_defaults(run=_inspect)
    simulate = commands.add_parser(
        "simulate",
        help="let a robot move without torques, or repeat a step that failed",
        description="Simulates a robot on flat ground, its drives without torque.",
    )
    _add_robot_arguments(simulate, optional=True)
    simulate.add_argument("--time", type=float, default=1.0, metavar="S", help="default: 1 s")
    simulate.add_argument("--step", type=float, default=0.01, metavar="S", help="default: 0.01 s")
    simulate.add_argument("--friction", type=float, default=0.8, help="of the ground; default: 0.8")
    simulate.add_argument("--save", metavar="FILE", help="write the trajectory to an .npz file")
    simulate.add_argument(
        "--replay", metavar="FILE", help="instead, repeat the step that failed in this file"
    )
    simulate.set_defaults(run=_simulate)
    demo = commands.add_parser(
        "demo",
        help="run a demo; without a name, list them",
        description="Runs a demo, or lists them.",
        epilog="vi-contact demo NAME --help shows the options of a demo",
    )
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
    sim = vc.Simulator(robot, time_step=arguments.step, ground=ground)
    trajectory = sim.run(arguments.time, progress=sys.stderr.isatty())
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
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
