"""Plots of a trajectory for papers, by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vi_contact.errors import ViContactError
from vi_contact.robot.robot import Robot
from vi_contact.simulation.trajectory import Trajectory
from vi_contact.viewer.report import panels, robot_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


LONGEST_NAME = 40
"""Characters of a curve's name in the legend, which is four names wide."""


def _legend(ax: Axes, lines: dict[str, Line2D]) -> None:
    """Names as they are: matplotlib would read mathematics between dollars, and hide _names."""
    numbers = [str(k) for k in range(len(lines))]
    legend = ax.legend(list(lines.values()), numbers, fontsize=7, ncols=4, frameon=False)
    for text, name in zip(legend.get_texts(), lines, strict=True):
        text.set_parse_math(False)
        text.set_text(name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}...")


def save_figure(trajectory: Trajectory, path: str | Path, robot: Robot | None = None) -> Path:
    """Writes the plots of the report as one figure; the file's ending says the format.

    Without an ending it is .png. Returns the path of the file.
    """
    from matplotlib.figure import Figure

    plots = panels(trajectory, robot_of(trajectory, robot))
    if not plots:
        raise ViContactError("the trajectory has no steps to plot")
    figure = Figure(figsize=(7.0, 1.9 * len(plots)), layout="constrained")
    axes = figure.subplots(len(plots), 1, sharex=True, squeeze=False)[:, 0]
    start, end = float(trajectory.time[0]), float(trajectory.time[-1])
    for plot, ax in zip(plots, axes, strict=True):
        lines = {}
        for curve in plot["series"]:
            if not curve["shown"]:
                continue
            style = "steps-post" if curve["step"] else "default"
            [line] = ax.plot(curve["x"] + start, curve["y"], drawstyle=style, linewidth=1.2)
            lines[curve["name"]] = line
            bounds = ax.get_ylim()
            for limit in curve["limits"]:
                ax.plot(curve["x"] + start, limit, "--", color=line.get_color(), linewidth=0.7)
            if curve["limits"]:
                ax.set_ylim(bounds)
        ax.set_title(plot["title"], fontsize=9, loc="left")
        ax.set_ylabel(f"[{plot['unit']}]", fontsize=8)
        ax.tick_params(labelsize=8)
        if plot["log"]:
            ax.set_yscale("log", nonpositive="clip")
        ax.grid(alpha=0.3)
        _legend(ax, lines)
    axes[-1].set_xlabel("time [s]", fontsize=8)
    axes[-1].set_xlim(start, end)
    file = Path(path)
    if not file.suffix:
        file = file.with_name(f"{file.name}.png")
    try:
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise ViContactError(f"cannot write {file}: {error.strerror}") from error
    except ValueError as error:  # an ending that matplotlib does not know
        raise ViContactError(f"cannot write {file}: {error}") from None
    return file
