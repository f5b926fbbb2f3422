"""What would become of a request? What asking would refuse is refused, before anything is searched."""

from collections.abc import Sequence
from typing import Any

from api.documents.calibrations import find_calibration
from api.service import Service
from api.studies.needs import Needs, check_trials, check_workers, known_answer, needs_of
from api.studies.questions import accelerator_of, cluster_of, named_profile, stored_profile
from api.studies.submissions import read_submission
from profiles import library
from tuner.messages import JobKind
from tuner.posing import check


def validate(value: Any, service: Service, *, caller: str) -> dict[str, Any]:
    """What a study of this body would be about, and what it would wait for; raises as making one does."""
    submission = read_submission(value)
    request = submission.request
    with service.database.reading() as session:
        needs = needs_of(request, submission.refine, caller=caller)
        if submission.refine is not None:
            check_trials(session, request)
        check_workers(session, needs, service)
        profile = stored_profile(session, named_profile(request))
        measuring = [job.kind for job in needs.jobs if known_answer(session, job) is None]
    calibration = find_calibration(request.calibration, service.database)
    if needs.unknown is not None:
        return _told(needs, measuring, cluster=cluster_of(request).name, accelerator=accelerator_of(request))
    inputs = check(request, library, profile=profile, calibration=calibration)
    model = {
        "name": inputs.description.name,
        "parameters": inputs.description.parameters,
        "blocks": len(inputs.description.blocks),
        "sequence_length": inputs.description.sequence_length,
        "precision": inputs.description.precision,
        "attention": inputs.description.attention,
    }
    told = _told(needs, measuring, cluster=inputs.cluster.name, accelerator=inputs.accelerator.name)
    return told | {"model": model}


def _told(needs: Needs, measuring: Sequence[JobKind], *, cluster: str, accelerator: str) -> dict[str, Any]:
    return {
        "answered": "after_measuring" if needs.jobs else "at_once",
        "measures": [kind.value for kind in measuring],
        "model": None,
        "cluster": cluster,
        "accelerator": accelerator,
    }
