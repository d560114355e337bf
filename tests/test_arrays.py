"""Axes move as NumPy's own function moves them: the same views, of the same memory."""

import numpy as np
import pytest

from lowregret.arrays import first, last

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
