"""The program for a GPU attends as plain torch does; without a GPU it is interpreted."""

import pytest

import lowregret as lr

torch = pytest.importorskip("torch")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytest.importorskip("triton")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [8, 6])  # channels of a head: also such as are no power of two
def test_it_attends_as_torch_does(width: int, dtype: torch.dtype) -> None:
    from lowregret.transformer.decoder import attend_to_cache
    from lowregret.transformer.triton_attention import attend

    B, H, C = 5, 2, 150
    random = torch.Generator().manual_seed(0)
    cache = torch.randn((B, 3, 2, H, C, width), generator=random, dtype=dtype).to(DEVICE)
    filled_B = torch.tensor([0, 1, 64, 65, C - 1], device=DEVICE)  # none, one, a whole block, one more, all but one
    caches = cache[:, 1], cache.clone()[:, 1]
    heads = torch.randn((B, 1, 3, H, width), generator=random, dtype=dtype).to(DEVICE).permute(2, 0, 3, 1, 4)[..., 0, :]
    found = attend(*heads, caches[0], filled_B)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(found, attend_to_cache(*heads, caches[1], filled_B, None), **tolerance)
    assert torch.equal(*caches)  # the new keys and values, in their places, and nothing else


def test_streams_grow_by_it_as_without_it() -> None:
    from lowregret.transformer import Decoder, Size
    from lowregret.transformer.triton_attention import attend

    decoder = Decoder(3, Size(context=70, width=12, heads=2, layers=2, inner=16), seed=1).to(DEVICE)
    tokens = torch.as_tensor(lr.sample(lr.PolyaUrn(3), 70, 2, 0), device=DEVICE)
    caches = [decoder.empty_cache(2) for _ in range(2)]
    for t in range(70):
        at = torch.full((2,), t, device=DEVICE)
        plain = decoder.extend(tokens[:, t], caches[0], at, t)
        torch.testing.assert_close(decoder.extend(tokens[:, t], caches[1], at, None, attend), plain)
