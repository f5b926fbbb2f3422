"""What does a study ask once model and links are measured? The request, with what was found in its place."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from api.computing.asked import Asked, as_texts
from api.documents.store import find_document
from api.storage.tables import DocumentKind, StoredDocument, Study
from api.web.problems import InvalidProblem
from profiles import library
from profiles.calibration import Calibration
from profiles.cluster import ClusterProfile, Link
from profiles.timings import Profile
from tuner.assignments import read_piece
from tuner.request import InlineCluster, InlineModel, PlanRequest, read_request


@dataclass(frozen=True)
class Question:
    """A request with the documents that it does not name itself."""

    request: PlanRequest
    profile: Profile | None = None
    calibration: Calibration | None = None


def question_of(session: Session, study: Study) -> Question:
    """The question of a study as it stands; raises as `stored_profile` does."""
    request = read_request(study.request)
    if study.links:
        link = read_piece(Link, study.links, name="the measured link")
        cluster = with_link(cluster_of(request), link, devices=request.devices)
        request = request.model_copy(update={"cluster": InlineCluster(document=cluster)})
    profile = stored_profile(session, named_profile(request) or study.profile)
    return Question(request, profile, stored_calibration(session, request.calibration))


def texts_of(question: Question) -> Asked:
    """The question as it goes to who computes."""
    return as_texts(question.request, question.profile, question.calibration)


def ask_again(session: Session, study: Study) -> dict[str, Any] | None:
    """The question of a study as POST /v1/plans takes it, with what was measured; None where that is gone."""
    try:
        question = question_of(session, study)
    except InvalidProblem:
        return None
    # `why` compares with a choice that is another one then, and of candidates the first is enough.
    asked: dict[str, Any] = question.request.model_dump(
        mode="json", exclude_defaults=True, exclude_none=True, exclude={"why", "top"}
    )
    if question.profile is not None:
        asked["model"] = {"profile": question.profile.fingerprint()}
    return asked | {"top": 1}


def named_profile(request: PlanRequest) -> str | None:
    """The id of the stored profile that the request names."""
    return request.model.profile if isinstance(request.model, InlineModel) else None


def stored_profile(session: Session, identifier: str | None) -> Profile | None:
    """The stored profile of that id, if there is one to look for; raises InvalidProblem where it is gone."""
    found = _stored(session, DocumentKind.PROFILE, identifier, what="profile")
    return None if found is None else Profile.from_value(found.document, name="the stored profile")


def stored_calibration(session: Session, identifier: str | None) -> Calibration | None:
    """The stored calibration of that id, if one is named; raises InvalidProblem where it is gone."""
    found = _stored(session, DocumentKind.CALIBRATION, identifier, what="calibration")
    return None if found is None else Calibration.from_value(found.document, name="the stored calibration")


def cluster_of(request: PlanRequest) -> ClusterProfile:
    """The cluster that the request names or holds; raises DocumentError for an unknown name."""
    if isinstance(request.cluster, InlineCluster):
        return request.cluster.document
    return library.load_cluster(request.cluster or "generic")


def accelerator_of(request: PlanRequest) -> str:
    """The data sheet of the devices that are asked about."""
    return request.accelerator or cluster_of(request).node.accelerator


def with_link(cluster: ClusterProfile, link: Link, *, devices: int) -> ClusterProfile:
    """The cluster with another link inside its nodes, which is all that `devices` in one node see."""
    node = cluster.node.model_copy(update={"link": link})
    between = link if devices <= node.devices else cluster.link
    return cluster.model_copy(update={"node": node, "link": between})


def name_of(request: PlanRequest) -> tuple[str, str]:
    """What lists call the model and the cluster while there is no plan."""
    model: Any = request.model
    called = model if isinstance(model, str) else model.name or "config"
    return called[:200], cluster_of(request).name[:200]


def _stored(
    session: Session, kind: DocumentKind, identifier: str | None, *, what: str
) -> StoredDocument | None:
    if identifier is None:
        return None
    found = find_document(session, kind, identifier)
    if found is None:
        raise InvalidProblem(
            f"there is no {what} {identifier[:80]!r}: post it to /v1/{kind.value}, and use the id it gets"
        )
    return found
