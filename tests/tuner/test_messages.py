"""Do a worker and the service understand each other, also when one of them is newer?"""

import json
import zlib
from base64 import b64decode
from typing import Any

import pytest

from profiles import library
from tuner.assignments import ASSIGNMENTS, RESULTS, Trial, read_assignment, read_result
from tuner.attachments import LARGEST_BYTES, Attachment
from tuner.configuration import Configuration
from tuner.errors import ProtocolError, RequestError
from tuner.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    Claim,
    Done,
    Failed,
    Finish,
    Heartbeat,
    HeartbeatReply,
    Job,
    JobKind,
    Released,
    WorkerInventory,
    read_message,
)

WORKER: dict[str, Any] = {"id": "0" * 26, "name": "bench", "version": "0.1.0"}
TOKEN = "0123456789abcdef" * 2
CONFIGURATION = {
    "schedule": "chimera", "width": 2, "depth": 4, "micro_batch_size": 8, "micro_batches": 8,
}  # fmt: skip


def test_messages_survive_the_wire() -> None:
    """What is written as JSON is read as it was."""
    messages = (
        Claim(token=TOKEN, worker=WorkerInventory.model_validate_json(json.dumps(WORKER)), wait_s=2.5),
        Heartbeat(token=TOKEN, progress={"iteration": 3}),
        Finish(token=TOKEN, outcome=Done(result={"a": 1})),
        Finish(token=TOKEN, outcome=Failed(message="no", retry=True, evidence={"rank": 3})),
        Finish(token=TOKEN, outcome=Released()),
    )
    for message in messages:
        assert read_message(type(message), json.loads(message.model_dump_json())) == message


@pytest.mark.parametrize("protocol", [OLDEST_PROTOCOL - 1, PROTOCOL + 1])
def test_another_protocol_is_refused_before_anything_else(protocol: int) -> None:
    """The message says which side to upgrade, although the rest of the message is not understood."""
    with pytest.raises(ProtocolError, match=rf"this service {OLDEST_PROTOCOL} to {PROTOCOL}") as refused:
        read_message(Claim, {"protocol": protocol, "unheard_of": 1})
    older = protocol < OLDEST_PROTOCOL
    assert ("on the worker" in str(refused.value)) is older


@pytest.mark.parametrize("protocol", ["1", None, 1.0, True, {}])
def test_what_is_no_number_of_a_protocol_is_a_fault_like_any_other(protocol: object) -> None:
    """The message names the key."""
    with pytest.raises(RequestError, match="protocol"):
        read_message(Heartbeat, {"protocol": protocol, "token": TOKEN})


def test_the_release_before_is_understood() -> None:
    """Every protocol from the oldest on."""
    for protocol in range(OLDEST_PROTOCOL, PROTOCOL + 1):
        value = {"token": TOKEN, "protocol": protocol}
        assert read_message(Heartbeat, value).protocol == protocol


def test_a_worker_ignores_what_a_newer_service_adds() -> None:
    """Answers may gain keys."""
    assert HeartbeatReply.model_validate_json(
        '{"cancel": true, "lease_s": 30, "heartbeat_s": 5, "hint": "new"}'
    ).cancel
    job = Job.model_validate_json(
        json.dumps(
            {
                "id": "0" * 26,
                "kind": "trial",
                "attempt": 1,
                "max_attempts": 3,
                "token": TOKEN,
                "new": [1],
                "lease_s": 30,
                "heartbeat_s": 5,
                "payload": {"model": "tiny-gpt", "configuration": CONFIGURATION},
            }
        )
    )
    trial = read_assignment(job.kind, job.payload)
    assert isinstance(trial, Trial)
    assert trial.configuration.configuration() == Configuration(**CONFIGURATION)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (Claim, [], "must be a JSON object"),
        (Claim, {"token": TOKEN}, "worker"),
        (Claim, {"token": TOKEN.upper(), "worker": WORKER}, "token"),
        (Claim, {"token": TOKEN, "worker": WORKER | {"id": "../x"}}, "worker.id"),
        (Claim, {"token": TOKEN, "worker": WORKER | {"kinds": []}}, "worker.kinds"),
        (Claim, {"token": TOKEN, "worker": WORKER | {"kinds": ["cook"]}}, "worker.kinds"),
        (Claim, {"token": TOKEN, "worker": WORKER | {"pools": ["a b"]}}, "worker.pools"),
        (Claim, {"token": TOKEN, "worker": WORKER | {"devices": [{"accelerator": "cpu"}]}}, "worker.devices"),
        (Heartbeat, {"token": TOKEN, "progress": {"log": "x" * 20_000}}, "progress"),
        (Finish, {"token": TOKEN}, "outcome"),
        (Finish, {"token": TOKEN, "outcome": {"status": "lost"}}, "outcome"),
        (Finish, {"token": TOKEN, "outcome": {"status": "done"}}, "result"),
        (Finish, {"token": TOKEN, "outcome": {"status": "failed", "message": ""}}, "message"),
    ],
)
def test_a_message_is_checked(kind: Any, value: Any, told: str) -> None:
    """With the place of the fault."""
    with pytest.raises(RequestError, match=told.replace(".", r"\.")):
        read_message(kind, value)


def test_every_kind_of_job_has_a_payload_and_a_result() -> None:
    """Nothing can be queued that no worker could read."""
    assert set(ASSIGNMENTS) == set(RESULTS) == set(JobKind)


SPREAD = {"median": 0.5, "p10": 0.4, "p90": 0.6}
LINK = library.load_cluster("dgx-h100").link.model_dump(mode="json")


@pytest.mark.parametrize(
    ("kind", "result", "sound"),
    [
        (JobKind.TRIAL, {"status": "ok", "measured_iteration_s": SPREAD}, True),
        (JobKind.TRIAL, {"status": "ok"}, False),
        (JobKind.TRIAL, {"status": "out_of_memory", "rank": 3, "wanted_bytes": 10**9}, True),
        (JobKind.TRIAL, {"status": "failed", "signal": 9, "exit_code": -9, "message": "killed"}, True),
        (JobKind.TRIAL, {"status": "ok", "measured_iteration_s": SPREAD | {"median": 0}}, False),
        (JobKind.PROFILE_LINKS, {"links": [{"scope": "node", "link": LINK, "residual": 0.02}]}, True),
        (JobKind.PROFILE_LINKS, {"links": []}, False),
        (JobKind.PROFILE_MODEL, {"profile": {}}, False),
    ],
)
def test_results_are_checked_by_kind(kind: JobKind, result: dict[str, Any], sound: bool) -> None:
    """An iteration that ran has a time; what failed says where."""
    if sound:
        assert read_result(kind, result).model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    else:
        with pytest.raises(RequestError, match=f"the result of a {kind} job"):
            read_result(kind, result)


def test_a_log_comes_back_as_it_was() -> None:
    """Deflated on the way."""
    packed = Attachment.pack("rank-0.log", "loss 3.2 \ud800\n" * 1000)
    assert packed
    assert not packed.cut
    assert zlib.decompress(packed.deflated()).decode() == "loss 3.2 ?\n" * 1000
    assert len(packed.content) < 500


def test_a_log_that_is_too_long_keeps_its_end() -> None:
    """And says so; a document that is too long is left out, for half of it is worth nothing."""
    lines = [f"{n * 2654435761 % 2**32:08x}" for n in range(200_000)]
    text = "\n".join(lines)
    packed = Attachment.pack("rank-0.log", text)
    assert packed
    assert packed.cut
    assert packed.size_bytes == len(text)
    assert len(b64decode(packed.content)) <= LARGEST_BYTES
    kept = zlib.decompress(packed.deflated()).decode()
    assert text.endswith(kept)
    assert len(kept) > 100_000
    assert Attachment.pack("trace.json", text) is None
    assert Attachment.model_validate_json(packed.model_dump_json()) == packed
