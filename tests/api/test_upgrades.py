"""Does a database that an earlier release filled go on with this one, on both databases?"""

from pathlib import Path

import pytest
from sqlalchemy import inspect

from api.service import Service
from api.settings import Settings
from api.storage.database import known_revision, open_database, revisions, upgrade
from api.storage.engine import open_engine
from api.storage.restore import check_backup, load
from tests.api.conftest import connect
from tests.api.life.pool import Pool, settle
from tests.api.reading import PARTS, read_everything
from tests.api.revisions.filling import FOLDER, LOG
from tests.api.work.factories import make_key

_, KNOWN = revisions()


def left_by(revision: str) -> Path:
    """What a release of that revision left behind."""
    return FOLDER / f"{revision}.backup"


def test_every_revision_has_a_database_that_it_filled() -> None:
    """Who adds a revision writes down what it fills: `python -P -m tests.api.revisions.filling`."""
    assert {path.stem for path in FOLDER.glob("*.backup")} == KNOWN
    for revision in KNOWN:
        contents = check_backup(left_by(revision))
        assert contents.header.revision == revision
        assert all(contents.rows.values()), f"{revision}: a table that no test upgrades, {contents.rows}"


@pytest.mark.parametrize("revision", sorted(KNOWN))
def test_a_filled_database_of_an_earlier_release_goes_on(address: str, revision: str) -> None:
    """Its rows are put into its own schema, `chimera database upgrade` is run, and all of it can be read."""
    load(address, left_by(revision))
    engine = open_engine(address)
    with engine.connect() as connection:
        assert known_revision(connection) == revision
        assert "studies" in inspect(connection).get_table_names()
    engine.dispose()
    upgrade(address)
    service = Service(Settings(database_url=address, work_in="threads"), open_database(address, pool_size=4))
    _, secret = make_key(service, "admin", owner="alice")
    client = connect(service, headers={"Authorization": f"Bearer {secret}"})
    # How rows are shown does not depend on the database.
    on_sqlite = address.startswith("sqlite")
    shown = read_everything(client, parts=PARTS if on_sqlite else ("report",))
    studies = client.get("/v1/studies").json()["items"]
    assert {"planned", "nothing fits"} <= {study["name"] for study in studies}
    rows = check_backup(left_by(revision)).rows
    assert len(studies) == rows["studies"]
    jobs = [path for path in shown if path.startswith("/v1/jobs/")]
    assert len(jobs) == rows.get("jobs", 0) + rows.get("job_attachments", 0)
    assert [shown[path] for path in jobs if "attachments" in path] == [LOG] * rows.get("job_attachments", 0)
    if "study_trials" in rows and on_sqlite:
        # The study that was measuring goes on where it was.
        settle(service)
        Pool(service).work()
        assert {study["name"]: study["status"] for study in client.get("/v1/studies").json()["items"]} == {
            "planned": "done", "nothing fits": "done", "measured": "done", "measuring": "done",
            "cancelled": "cancelled",
        }  # fmt: skip
    service.database.close()
