"""The README's example does what it says."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_hopper_of_the_readme_stands(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [code] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names = {}
    exec(code, names)
    assert "Robot 'fly_hopper_rail'" in capsys.readouterr().out
    force = names["trajectory"].contacts["foot"].force[-20:, 2].mean()
    weight = 9.81 * names["robot"].mass
    assert force == pytest.approx(weight, rel=0.05)  # it still sways a little after two seconds
    assert names["trajectory"].contacts["foot"].gap.min() > -1e-9
    assert names["many"].q.shape == (1, 101, 5)
    assert (tmp_path / "run.html").exists()
