"""The models that a run exports by itself."""

from pathlib import Path

from fedcore.coordinator.events import ClientEnrolled, ClientPulled, Evaluated
from fedcore.protocol import Pull
from fedrun.files import load_arrays
from tests.fedrun.journal.runs import Written


def test_the_best_model_is_found_though_versions_come_faster_than_measurements(
    tmp_path: Path,
) -> None:
    run = Written(tmp_path, evaluate={"every_versions": 1})
    run.group.feed(ClientEnrolled(at=1.0, cid="eve", name="eve", role="evaluator"))
    for version in range(0, 10, 2):
        pull = Pull(cid="eve", nonce=version, epoch=run.run.coordinator.state.epoch)
        run.group.feed(ClientPulled(at=1.0, pull=pull, fresh_epoch="f" * 16))
        for _ in range(2):  # while the evaluator measures
            run.push()
        values = {"accuracy": version / 10}
        run.group.feed(
            Evaluated(at=1.0, cid="eve", version=version, values=values, samples=1)
        )
        run.group.commit()
    run.close()
    arrays, said = load_arrays(run.folder / "models" / "best.safetensors")
    assert (said["version"], said["evaluated"]) == ("8", "accuracy=0.8")
    assert set(arrays["w"].ravel()) == {-8.0}
