"""Both forms of the engine: arrays, and the compiled loop where Numba is there (other settings take arrays anyway)."""

import pytest

from lowregret.engine import loop


@pytest.fixture(params=["arrays", "compiled"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "arrays":
        monkeypatch.setattr(loop, "fits", lambda setting: False)
    elif not loop.warm_up():
        pytest.skip("Numba is not installed")
    return str(request.param)
