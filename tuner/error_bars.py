"""Where will the measured iteration of a configuration lie, by a calibration?"""

from dataclasses import dataclass, field, replace

from profiles.calibration import Calibration, CalibrationSet
from profiles.cluster import ClusterProfile
from profiles.timings import Profile
from tuner.calibration import calibrated, correct
from tuner.errors import CalibrationError, RequestError
from tuner.evaluation import Evaluator
from tuner.fitted_set import coefficients_of
from tuner.inputs import Library, PlanInputs, gather
from tuner.observation import Predictor
from tuner.plan import ErrorBar
from tuner.ranking import Ranked
from tuner.request import InlineCluster, PlanRequest


@dataclass(frozen=True)
class ErrorBars:
    """The error bars of the configurations of one request, which `evaluator` evaluated as calibrated."""

    evaluator: Evaluator
    chosen: CalibrationSet
    level: float
    _known: dict[tuple[int, int], ErrorBar] = field(default_factory=dict)

    def of(self, ranked: Ranked) -> ErrorBar | None:
        """None for what was not simulated, and for schedules of the other kind: with a flush, or without."""
        evaluated, index = ranked.choice.evaluated, ranked.choice.index
        if ranked.simulated is None or evaluated.variant.scheme.synchronous != self.chosen.synchronous:
            return None
        key = id(evaluated), index
        if key not in self._known:
            line = Predictor(self.evaluator, evaluated, index).line(coefficients_of(self.chosen))
            bar = correct(line, self.chosen)
            self._known[key] = ErrorBar(low_s=bar.low_s, high_s=bar.high_s, coverage=self.level)
        return self._known[key]


def check_calibration(request: PlanRequest, calibration: Calibration | None) -> None:
    """A calibration is named by what is in it; raises RequestError where that is another, or not there."""
    if request.calibration is None:
        return
    if calibration is None:
        raise RequestError(
            f"the request names the calibration {request.calibration}, which is not there: give one that is, "
            "or plan without"
        )
    content = calibration.fingerprint()
    if content != request.calibration:
        raise RequestError(
            f"the request names the calibration {request.calibration}, and what was found under it has the "
            f"content {content}: it was changed, or is another one; name it by its content, or store it again"
        )


def find_set(calibration: Calibration, cluster: ClusterProfile, model: str) -> CalibrationSet:
    """The set for a request; raises CalibrationError where the calibration has none for its cluster."""
    found = calibration.find(cluster.name, model, synchronous=True)
    if found is None:
        flushed = [each for each in calibration.sets if each.synchronous]
        names = sorted({each.cluster for each in flushed})
        models = sorted({str(each.model) for each in flushed if each.cluster == cluster.name})
        if models:
            raise CalibrationError(
                f"the calibration was made for {', '.join(models)} on {cluster.name}, and says nothing of "
                f"{model}: calibrate on measurements of that model, or plan without"
            )
        told = f"on {', '.join(names)}" if names else "on schedules without a flush alone"
        raise CalibrationError(
            f"the calibration was made {told}, and says nothing of schedules with a flush on {cluster.name}: "
            "calibrate on measurements of that cluster, or plan without"
        )
    return found


def calibrated_inputs(inputs: PlanInputs, chosen: CalibrationSet) -> PlanInputs:
    """The inputs of a request with the cluster's software as it was fitted."""
    return replace(inputs, cluster=calibrated(inputs.cluster, chosen))


def calibrated_request(
    request: PlanRequest, calibration: Calibration, library: Library, *, profile: Profile | None = None
) -> PlanRequest:
    """The same request of the cluster as it was calibrated, for what knows of no calibration."""
    inputs = gather(request, library, profile=profile)
    chosen = find_set(calibration, inputs.cluster, inputs.description.name)
    document = calibrated_inputs(inputs, chosen).cluster
    # The document has the links that the request assumes.
    told = {"cluster": InlineCluster(document=document), "link_bandwidth_factor": 1.0}
    return request.model_copy(update=told)
