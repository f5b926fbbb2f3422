"""What is in a model that came from a factory, as far as running its layers tells?"""

from collections.abc import Mapping, Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode

from executor.errors import ModelError
from executor.measuring.measure import LossLayer, MeasuredPoint
from executor.measuring.subjects import first_of_each, samples
from executor.models.construction import DTYPES
from executor.models.sources import Model
from executor.values import as_tensors
from profiles.document import Precision
from profiles.model import Bytes, Layer, ModelDescription
from profiles.timings import TimingPoint

_PRECISIONS: dict[torch.dtype, Precision] = {dtype: name for name, dtype in DTYPES.items()}


def describe_layers(
    model: Model,
    types: Sequence[str],
    points: Mapping[str, Sequence[MeasuredPoint]],
    *,
    name: str,
    device: torch.device,
) -> ModelDescription:
    """Describe layers of `types` (the loss last) by their measured `points`.

    All layers count as blocks: a pipeline may be cut after any of them. FLOPs are those of matrix products,
    for one sample.
    """
    measured = {kind: [one.point for one in found] for kind, found in points.items()}
    flops = _flops(model, types, points, device=device)
    layers = model.build(device=torch.device("cpu"))
    groups = {
        layer: (f"tied.{number}", layers[layer].get_parameter(parameter).numel())
        for number, group in enumerate(model.tied)
        for layer, parameter in group
    }
    described = [
        _layer(
            f"layers.{index}",
            kind,
            points=measured[kind],
            parameters=sum(parameter.numel() for parameter in layers[index].parameters()),
            flops=flops[kind],
            tied=groups.get(index, (None, 0)),
        )
        for index, kind in enumerate(types[:-1])
    ]
    loss = _layer("loss", "loss", points=measured["loss"], parameters=0, flops=(0, 0), tied=(None, 0))
    first, last = points[types[0]][0].outputs[0], points[types[-2]][0].outputs[0]
    return ModelDescription(
        name=name,
        family="factory",
        sequence_length=model.sequence_length,
        precision=_precision(layers, name),
        attention="eager",
        hidden_size=first.shape[-1] if first.ndim > 1 else 1,
        vocabulary_size=last.shape[-1] if last.ndim > 1 else 1,
        source="traced",
        layers=(*described, loss),
    )


def _layer(
    name: str,
    kind: str,
    *,
    points: Sequence[TimingPoint],
    parameters: int,
    flops: tuple[int, int],
    tied: tuple[str | None, int],
) -> Layer:
    is_loss = kind == "loss"
    return Layer(
        name=name,
        type=kind,
        kind="loss" if is_loss else "block",
        parameters=parameters,
        active_parameters=parameters,
        tied_group=tied[0],
        tied_parameters=tied[1],
        forward_flops=flops[0],
        backward_flops=flops[1],
        activation_bytes=_affine(points, "activation_bytes"),
        transient_bytes=_affine(points, "transient_bytes"),
        cut_bytes=Bytes(per_sample=0) if is_loss else _affine(points, "boundary_bytes"),
    )


def _affine(points: Sequence[TimingPoint], field: str) -> Bytes:
    """The line fixed + per_sample · B through the first and last point; in proportion where there is one."""
    known = [(point.micro_batch_size, getattr(point, field) or 0) for point in points]
    (low, first), (high, last) = known[0], known[-1]
    if low == high:
        return Bytes(per_sample=-(-first // low))
    step = max(0, round((last - first) / (high - low)))
    return Bytes(per_sample=step, fixed=max(0, first - step * low))


def _flops(
    model: Model, types: Sequence[str], points: Mapping[str, Sequence[MeasuredPoint]], *, device: torch.device
) -> dict[str, tuple[int, int]]:
    """Forward and backward of one sample, by type."""
    size = next(iter(points.values()))[0].point.micro_batch_size
    inputs, target = samples(model, size, device=device, seed=0)
    found = {}
    for subject in first_of_each(types):
        if subject.layer < len(model):
            (layer,) = model.build([subject.layer], device=device)
        else:
            layer = LossLayer(model.loss, target)
        values = inputs if subject.follows is None else points[subject.follows][0].outputs
        leaves = [value.detach().requires_grad_(value.is_floating_point()) for value in values]
        with FlopCounterMode(display=False) as counter:
            outputs = as_tensors(layer(*leaves))
            forward = counter.get_total_flops()
            roots = [output for output in outputs if output.requires_grad]
            if roots:
                torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
        found[subject.type] = (forward // size, (counter.get_total_flops() - forward) // size)
    return found


def _precision(layers: Sequence[torch.nn.Module], name: str) -> Precision:
    dtypes = {p.dtype for layer in layers for p in layer.parameters() if p.is_floating_point()}
    known = [_PRECISIONS[dtype] for dtype in dtypes if dtype in _PRECISIONS]
    if len(dtypes) > 1 or len(known) != len(dtypes):
        shown = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
        raise ModelError(
            f"the layers of {name} have parameters of {shown}: a profile needs one of {', '.join(DTYPES)}"
        )
    return known[0] if known else "float32"
