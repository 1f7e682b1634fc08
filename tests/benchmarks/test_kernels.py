import pytest
import torch
from benchmarks.kernels import KERNELS, without

from benchmarks import kernels
from diskoop.kernels import layers


def test_a_kernel_is_left_out_and_put_back() -> None:
    asks = {name: getattr(*place) for name, place in KERNELS.items()}
    with without("batch norm"):
        assert not layers._has_batch_norm_kernel(torch.ones(2, 3, 4, 4), torch.nn.BatchNorm2d(3), [2])
        assert layers._has_batch_norm_kernel is not asks["batch norm"]
        assert layers._has_kernel is asks["small-channel convolutions"]
    assert {name: getattr(*place) for name, place in KERNELS.items()} == asks


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_without_cuda_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["kernels.py"])
    with pytest.raises(SystemExit) as end:
        kernels.main()
    assert (end.value.code, capsys.readouterr().err) == (2, "kernels run on CUDA, and there is none here\n")
