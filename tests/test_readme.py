"""The examples of the README and of the page of public calls do what they say."""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import vi_contact as vc

ROOT = Path(__file__).parents[1]


def snippets(file):
    return re.findall(r"```python\n(.*?)```", (ROOT / file).read_text(), re.DOTALL)


def test_the_hopper_of_the_readme_stands(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [code] = snippets("README.md")
    names = {}
    exec(code, names)
    assert "Robot 'fly_hopper_rail'" in capsys.readouterr().out
    force = names["trajectory"].contacts["foot"].force[-20:, 2].mean()
    weight = 9.81 * names["robot"].mass
    assert force == pytest.approx(weight, rel=0.05)  # it still sways a little after two seconds
    assert names["trajectory"].contacts["foot"].gap.min() > -1e-9
    assert names["many"].q.shape == (8, 101, 5)
    assert not np.array_equal(names["many"].q[0], names["many"].q[1])
    assert (tmp_path / "run.html").exists()


def test_the_page_of_public_calls_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in snippets("docs/api.md"):
        exec(code, names)
    assert len(names["bolted"].base_dofs) == 0
    assert names["many"].q.shape == (8, 101, names["robot"].nq)
    assert np.array_equal(names["again"].q, vc.Trajectory.load("run.npz").q)
    assert {file.name for file in tmp_path.iterdir()} == {"run.npz", "run.png", "run.html"}
    assert names["falling"].state.q[0] == pytest.approx(0.4, abs=1e-12)  # where the guard is zero
    assert names["trajectory"].contacts["link_3/table"].force[:, 2].max() > 0.0
    assert "kind='event', name='low'" in capsys.readouterr().out


def test_the_page_of_public_calls_is_complete():
    page = (ROOT / "docs" / "api.md").read_text()
    missing = [name for name in vc.__all__ if not re.search(rf"vc\.{name}\b", page)]
    table = page.split("\n## Trajectory")[1].split("\n```python")[0]
    missing += [
        part.name for part in fields(vc.Trajectory) if not re.search(rf"`{part.name}\b", table)
    ]
    assert missing == []
