"""Is every code what its definition says, on ordinary gradients and on odd ones?"""

import math
from statistics import NormalDist

import pytest
import torch
from torch import Tensor

from executor.compression import low_rank, quantization, sparse, two_means
from executor.compression.feedback import Feedback, Unit
from tuner.compression import Compression, read_compression

GENERATOR = torch.Generator().manual_seed(1)
GRADIENTS = {
    "random": torch.randn(1000, generator=GENERATOR),
    "constant": torch.full((400,), 0.25),
    "sparse": torch.zeros(500).index_fill_(0, torch.tensor([3, 77, 401]), -2.0),
    "all negative": -torch.rand(300, generator=GENERATOR),
    "zero": torch.zeros(50),
    "one element": torch.tensor([-3.5]),
    "two elements": torch.tensor([1.0, -1e-30]),
    "large": torch.randn(777, generator=GENERATOR) * 1e30,
    "small": torch.randn(64, generator=GENERATOR) * 1e-38,
    "double": torch.randn(200, generator=GENERATOR, dtype=torch.float64),
}
NOT_FINITE = {
    "nan": torch.tensor([1.0, math.nan, 2.0, -1.0]),
    "infinite": torch.tensor([1.0, -math.inf, 2.0, -1.0]),
    "all nan": torch.full((300,), math.nan),
}
every_gradient = pytest.mark.parametrize("gradient", GRADIENTS.values(), ids=GRADIENTS)


def decoded_sparse(gradient: Tensor, indices: Tensor, count: int) -> Tensor:
    """What arrives of the gradients at some indices."""
    total = torch.zeros_like(gradient)
    sparse.add_decoded(total, sparse.encode(gradient, indices, count))
    return total


def decoded_levels(gradient: Tensor, seed: int = 0) -> Tensor:
    """What arrives of a quantized gradient."""
    total = torch.zeros_like(gradient)
    code = quantization.encode(gradient, torch.Generator().manual_seed(seed))
    quantization.add_decoded(total, code)
    return total


@every_gradient
@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.0])
def test_topk_sends_the_largest_and_nothing_else(gradient: Tensor, ratio: float) -> None:
    """As sorting all of them would, each value as float32."""
    count = int(Compression("topk", ratio=ratio).kept(len(gradient)))
    assert count == max(1, math.ceil(round(ratio * len(gradient), 6)))
    sent = decoded_sparse(gradient, sparse.select_largest(gradient, count), count)
    order = sorted(range(len(gradient)), key=lambda index: -abs(float(gradient[index])))
    smallest = abs(float(gradient[order[count - 1]]))
    kept = sent.nonzero().squeeze(1)
    assert len(kept) <= count
    assert torch.equal(sent[kept], gradient[kept].float().to(gradient.dtype))
    assert all(abs(float(gradient[index])) >= smallest for index in kept.tolist())
    assert {i for i in order if abs(float(gradient[i])) > max(smallest, 1e-45)} <= set(kept.tolist())


@every_gradient
def test_gaussiank_corrects_its_threshold_three_times_at_most(gradient: Tensor) -> None:
    """Against the rule in plain numbers; of too many it takes the largest."""
    n = len(gradient)
    count = int(Compression("gaussiank", ratio=0.05).kept(n))
    values = gradient.double().tolist()
    mean = sum(values) / n
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / n)
    threshold = abs(mean) + deviation * NormalDist().inv_cdf(1 - count / (2 * n))
    beyond = [i for i in range(n) if abs(values[i]) > threshold]
    for _ in range(3):
        if 3 * len(beyond) < 2 * count:
            threshold /= 2
        elif 3 * len(beyond) > 4 * count:
            threshold *= 1.5
        else:
            break
        beyond = [i for i in range(n) if abs(values[i]) > threshold]
    found = sparse.select_beyond_quantile(gradient.double(), count).tolist()
    assert len(found) == min(count, len(beyond)) <= count
    assert set(found) <= set(beyond)
    assert (
        sorted(abs(values[i]) for i in found) == sorted(abs(values[i]) for i in beyond)[-count:][: len(found)]
    )


@every_gradient
def test_a_quantized_gradient_is_a_level_beside_what_it_was(gradient: Tensor) -> None:
    """Multiples of the norm over s, of the same sign, less than one level off; s is √n where levels fit."""
    levels = decoded_levels(gradient)
    norm = float(torch.linalg.vector_norm(gradient.double()))
    if norm == 0:
        assert torch.equal(levels, gradient)
        return
    code = quantization.encode(gradient, torch.Generator().manual_seed(0))
    bits = "".join(f"{byte:08b}"[::-1] for byte in code[4:].tolist())
    step = norm / quantization.levels_count(len(gradient), bits.index("0"))
    ratio = (levels.double() / step).numpy()
    assert abs(ratio - ratio.round()).max() < 1e-3
    assert float((levels.double() - gradient.double()).abs().max()) <= step * (1 + 1e-5)
    assert not bool(((levels * gradient.sign()) < 0).any())


def test_a_random_gradient_has_as_many_levels_as_the_paper() -> None:
    """Which is √n: the first bit, which tells of a halving, is 0; a constant one has half as many."""
    generator = torch.Generator().manual_seed(0)
    assert int(quantization.encode(torch.randn(10_000, generator=generator), generator)[4]) % 2 == 0
    assert int(quantization.encode(torch.ones(10_000), generator)[4]) % 4 == 1


@pytest.mark.parametrize("name", ["random", "constant", "sparse", "all negative"])
def test_the_mean_of_many_quantizations_is_the_gradient(name: str) -> None:
    """10,000 draws of every element, in one long gradient that repeats: within six standard errors."""
    gradient, draws = GRADIENTS[name][:100], 10_000
    levels = decoded_levels(gradient.repeat(draws)).double().view(draws, -1)
    error = (levels.mean(0) - gradient.double()).abs()
    assert float(error.max()) <= 6 * float(levels.std(0).max()) / math.sqrt(draws)
    assert float(levels.std(0).max()) > 0


def test_few_elements_are_quantized_without_bias_too() -> None:
    """Three elements have one level, which 3,000 draws hit as often as they should."""
    gradient, draws = torch.tensor([0.5, -0.25, 1.0]), 3_000
    drawn = torch.stack([decoded_levels(gradient, seed) for seed in range(draws)])
    assert bool(((drawn.mean(0) - gradient).abs() <= 6 * drawn.std(0) / math.sqrt(draws)).all())


@every_gradient
@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_two_means_are_of_the_two_signs(gradient: Tensor, replicas: int) -> None:
    """μ₊ over g >= 0, μ₋ over g < 0, 0 where empty; with its own means alone a gradient is as it was."""
    values = gradient.double().tolist()
    positive, negative = [v for v in values if v >= 0], [v for v in values if v < 0]
    expected = [sum(part) / len(part) if part else 0.0 for part in (positive, negative)]
    own = two_means.means(gradient)
    assert own.dtype == torch.float32
    assert own.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-44)
    again = two_means.rebuilt(gradient, own, replicas * own, replicas=replicas)
    assert torch.allclose(again, replicas * gradient, rtol=1e-5)
    other = two_means.rebuilt(gradient, own, replicas * own + torch.tensor([1.0, -2.0]), replicas=replicas)
    shift = torch.where(gradient < 0, -2.0, 1.0)
    assert torch.allclose(other, replicas * gradient + shift, rtol=1e-5)


def test_factors_of_a_matrix_of_low_rank_give_it_back() -> None:
    """After one step where its rank is at most that of the factors; padding is cut off."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(9, 2, generator=generator) @ torch.randn(2, 9, generator=generator)
    gradient = matrix.reshape(-1)[:80]
    matrix.view(-1)[80:] = 0
    square = low_rank.as_matrix(gradient)
    assert torch.equal(square, matrix)
    columns = low_rank.orthonormal(square @ low_rank.first_factor(9, 3, generator))
    assert torch.allclose(columns.T @ columns, torch.eye(3), atol=1e-5)
    assert torch.allclose(columns @ (square.T @ columns).T, square, atol=1e-5)


@pytest.mark.parametrize("gradient", NOT_FINITE.values(), ids=NOT_FINITE)
def test_what_is_not_finite_arrives_as_such(gradient: Tensor) -> None:
    """No compression hides a NaN or an infinity."""
    for select in (sparse.select_largest, sparse.select_beyond_quantile):
        sent = decoded_sparse(gradient, select(gradient, 1), 1)
        assert not bool(torch.isfinite(sent).all()), select
    assert bool(decoded_levels(gradient).isnan().all())
    own = two_means.means(gradient)
    assert bool(own.isnan().all())
    assert bool(low_rank.orthonormal(low_rank.as_matrix(gradient)).isnan().all())


def test_a_residual_has_no_loss_scale() -> None:
    """It is added with the scale of the next gradient, and stays as it was where a step is skipped."""
    feedback, unit = Feedback(), Unit((0, 0), 2, torch.zeros(3), 0, 2)
    feedback.corrected(unit, torch.ones(3), length=5, scale=4.0)
    feedback.owe(unit, torch.tensor([4.0, 8.0, 12.0]), scale=4.0)
    feedback.settle(stepped=True)
    assert feedback.residuals[0, 0].tolist() == [0, 0, 1, 2, 3]
    assert feedback.corrected(unit, torch.ones(3), length=5, scale=2.0).tolist() == [3, 5, 7]
    feedback.owe(unit, torch.ones(3), scale=2.0)
    feedback.settle(stepped=False)
    assert feedback.residuals[0, 0].tolist() == [0, 0, 1, 2, 3]


@pytest.mark.parametrize("text", ["qsgd", "topk", "topk:0.3", "gaussiank:0.2"])
@every_gradient
def test_a_code_is_as_long_as_the_model_says(gradient: Tensor, text: str) -> None:
    """In bytes, whatever the values are."""
    how = read_compression(text)
    if how.name == "qsgd":
        code = quantization.encode(gradient, torch.Generator().manual_seed(3))
    else:
        count = int(how.kept(len(gradient)))
        code = sparse.encode(gradient, sparse.select_beyond_quantile(gradient, count), count)
    assert code.nbytes == how.volume_bytes(len(gradient))


@pytest.mark.gpu
def test_codes_on_a_device_are_those_of_the_cpu() -> None:
    """Other ways lead to the same bits there: positions, packing and partitions."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    gradient = GRADIENTS["random"]
    count = 50
    there = sparse.select_largest(gradient.cuda(), count)
    assert set(there.tolist()) == set(sparse.select_largest(gradient, count).tolist())
    code = quantization.encode(gradient.cuda(), torch.Generator("cuda").manual_seed(0))
    totals = torch.zeros_like(gradient), torch.zeros_like(gradient).cuda()
    for total in totals:
        quantization.add_decoded(total, code.to(total.device))
    assert torch.allclose(totals[0], totals[1].cpu())
    assert float((totals[0] - gradient).abs().max()) <= float(gradient.norm()) / 31 * 1.0001
    assert torch.allclose(two_means.means(gradient.cuda()).cpu(), two_means.means(gradient), atol=1e-6)
