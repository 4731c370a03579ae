"""The command line: one clear line and exit code 2 on errors, never a traceback."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import vi_contact as vc

EXAMPLES = """examples:
  vi-contact inspect fly_hopper                      report of a bundled robot
  vi-contact inspect robot.urdf --html robot.html    and its picture, to open in a browser
  vi-contact inspect robot.urdf --package-dir ~/ws/src --strict
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
    inspect.add_argument("urdf", metavar="URDF", help="a file, or the name of a bundled robot")
    inspect.add_argument("--base", choices=["free", "fixed"], help="default: as the file says")
    inspect.add_argument(
        "--package-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="folder that holds the packages of package:// addresses; may be repeated",
    )
    inspect.add_argument(
        "--no-contacts", action="store_true", help="leave out contacts and their meshes"
    )
    inspect.add_argument(
        "--strict", action="store_true", help="approximations and ignored physics are an error"
    )
    inspect.add_argument("--html", metavar="FILE", help="write a 3D picture that opens offline")
    inspect.set_defaults(run=_inspect)
    simulate = commands.add_parser(
        "simulate",
        help="repeat a step that failed",
        description="Repeats a step that was written to a file when it failed.",
    )
    simulate.add_argument("--replay", metavar="FILE", required=True, help="the .npz file")
    simulate.set_defaults(run=_simulate)
    return parser


def _inspect(arguments: argparse.Namespace) -> None:
    robot = vc.load_robot(
        arguments.urdf,
        base=arguments.base,
        package_dirs=arguments.package_dir,
        contacts="none" if arguments.no_contacts else "auto",
        strict=arguments.strict,
    )
    print(robot.report)
    if arguments.html:
        from vi_contact.viewer.scene import save_robot_page

        file = save_robot_page(robot, arguments.html)
        print(f"\nPicture: {file.resolve()} (open it in a browser; no network needed)")


def _simulate(arguments: argparse.Namespace) -> None:
    from vi_contact.simulation.replay import load_failure

    sim, tau = load_failure(arguments.replay)
    print(f"{sim.robot}, time step {sim.time_step:g} s, t = {sim.state.time:g} s")
    sim.step(tau)
    info = sim.info
    print(
        f"the step converges: {info.iterations} iterations in {info.parts} parts by "
        f"{info.method}, {info.contacts} contacts closed, residual {info.residual:.2g} N s"
    )


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
