"""Axes move as NumPy's own function moves them: the same views, of the same memory; whether any flag is set."""

import numpy as np
import pytest

from lowregret.arrays import first, last, some

from .conftest import extra

torch = extra("torch")


@pytest.mark.parametrize("n_axes", range(1, 6))
def test_axes_move_as_moveaxis_moves_them(n_axes: int) -> None:
    array = np.arange(720.0).reshape(2, 3, 4, 5, 6)[(0,) * (5 - n_axes)]
    for moved, at in ((first(array), (-1, 0)), (last(array), (0, -1))):
        expected = np.moveaxis(array, *at)
        assert (moved.shape, moved.strides) == (expected.shape, expected.strides)
        assert np.shares_memory(moved, array)
        np.testing.assert_array_equal(moved, expected)
    np.testing.assert_array_equal(first(torch.as_tensor(array)).numpy(), first(array))
    np.testing.assert_array_equal(last(torch.as_tensor(array)).numpy(), last(array))


def test_some_is_any_and_a_device_is_not_asked() -> None:
    for flags in (np.zeros(()), np.zeros(3, dtype=bool), np.array([0, 2]), np.array(4), np.ones((2, 2)), np.zeros(0)):
        assert some(flags) is bool(flags.any())
    assert some(np.int64(3))
    assert not some(np.bool_(False))
    assert some(torch.zeros(2))
