"""``fedsim influence``: an audit of how much each client influenced the model."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import InstanceOf
from rich.console import Console

from fedcore.config import Count
from fedcore.errors import ConfigError
from fedcore.influence.fisher import SAMPLES
from fedcore.training import initial_model
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload
from fedrun import units
from fedrun.config import FederationConfig
from fedrun.config.engine import EngineConfig
from fedsim.api import run as run_simulation
from fedsim.population import Population
from fedstudies.federated import CONFIG, Federation, Simulating
from fedstudies.frame import (
    Option,
    Phase,
    Progress,
    Say,
    Steps,
    Stopped,
    stopping,
)
from fedstudies.functions import function_of
from fedstudies.influence.allowed import (
    require_auditable,
    require_curved,
    require_smooth,
)
from fedstudies.influence.audit import Auditor, Retraining, choose_clients, retrain
from fedstudies.influence.estimate import Estimator, Settings
from fedstudies.influence.outcome import CHECKED, Audit
from fedstudies.influence.repetition import Repetition
from fedstudies.influence.schedule import read_schedule
from fedstudies.processes import run_all
from fedstudies.typed import split

_WHOLE = "the audit needs the whole run"


def _names(option: str, typed: str) -> Sequence[str]:
    names = [name for name in split(typed) if name]
    if not names:
        raise ConfigError(
            f"{option} {typed!r}: expected names, such as client-3,client-7"
        )
    return names


class Influence(Simulating[Audit]):
    """Estimate how each client influenced the model.

    The audit repeats every client's local steps on its data, so it runs where the data
    of all clients are: in a simulation, or with the app of a recorded run.

    Returns:
        The clients in ``rows``, the most helpful one first, with ``verdict``,
        ``doubts``, ``correlation`` and ``as_json()``.

    Raises:
        ConfigError: a setting is wrong, or the run cannot be audited.
        ModelError: the model's Hessian products do not match its gradients.
        LatecomerError: the app or the data are not those of the recorded run.
    """

    config: Annotated[str | Path, CONFIG]
    """The YAML file of the federation."""
    workload: Annotated[
        InstanceOf[Workload] | None, Option(is_own=False, wanted="a Workload")
    ] = None
    """The model and the data. Without it, the app. With it, one process does all."""
    _: KW_ONLY
    run: Annotated[str | Path | None, Option("FOLDER")] = None
    """Audit this recorded run of the federation. Without it, the federation is
    simulated first."""
    versions: Annotated[Count | None, Option(also="--rounds")] = None
    """How many versions to simulate, or to audit of --run. Without it, up to the
    end."""
    estimator: Estimator = "hessian"
    """Exact second derivatives, or gradients of samples in their place."""
    samples: Count = SAMPLES
    """fisher: how many samples stand for a Hessian."""
    truncate: bool = False
    """Stop following a layer once its estimate grows (for deep models)."""
    leave_one_out: bool = False
    """Also retrain without each client, and compare."""
    check: Count = CHECKED
    """Without how many clients to retrain, to check the estimate."""
    clients: Annotated[
        Sequence[str],
        Option("NAME,NAME", read=_names, wanted="a list of names"),
    ] = ()
    """Audit these clients only; it takes less memory and time."""
    out: Annotated[str | Path | None, Option(also="-o")] = None
    """The folder for the page, the numbers and the simulated run. Without it, the next
    free one beside server.journal."""

    examples: ClassVar = (
        "federation.yaml --versions 100 --leave-one-out",
        "federation.yaml --run runs/digits --clients client-3",
    )

    def perform(self, console: Console) -> Steps[Audit]:
        """Simulates unless a run is given; estimates, and retrains without clients."""
        found = self.federation(needs_app=self.workload is None)
        config, given = found.config, self.workload or found.load()
        if given.test_data is None:
            raise ConfigError(
                "influence: the workload has no test_data=, on which the influence is "
                "measured"
            )
        recorded = self.folder / "run" if self.run is None else Path(self.run)
        with stopping(lambda: Stopped(_WHOLE)):
            if self.run is None:
                clients = units.amount(config.simulate.clients, "client")
                config = self._make_auditable(config, given)
                yield Say(f"simulates {clients}: {recorded}")
                run_simulation(
                    config, given, folder=recorded, progress=console.is_terminal
                )
        again = ["--run", str(recorded)] if self.run is None else []
        with stopping(lambda: Stopped(_WHOLE, again=again)):
            return (yield from self._audit(found._replace(config=config), recorded))

    def _audit(self, found: Federation, recorded: Path) -> Steps[Audit]:
        args = found.config.simulate.args
        schedule = read_schedule(recorded, args, self.versions)
        watched = choose_clients(list(schedule.clients), self.clients)
        settings = Settings(self.estimator, self.samples, self.truncate)
        repetition = Repetition(self.workload or found.load(), schedule)
        if self.estimator == "hessian":
            repetition.require_curved()
        auditor = Auditor(repetition, watched, settings, recorded.name)
        yield Phase("estimate", len(schedule.rounds))
        for version in auditor.estimate():
            yield Progress(1, f"version {version:,}")
        without = watched if self.leave_one_out else auditor.to_check(self.check)
        if without:
            title = "leave one out" if self.leave_one_out else "check"
            yield Phase(title, len(without))
            yield from self._retrain(auditor, found, recorded, without)
        self.folder.mkdir(parents=True, exist_ok=True)
        return auditor.outcome()

    def _retrain(
        self, auditor: Auditor, found: Federation, run: Path, names: Sequence[str]
    ) -> Generator[Progress]:
        if self.workload is not None:
            for name in auditor.retrain(names):
                yield Progress(1, name, f"retrained without {name}")
            return
        args = tuple(found.config.simulate.args.items())
        tasks = [
            Retraining(found.app, found.place, run, self.versions, args, name)
            for name in names
        ]
        with closing(run_all(retrain, tasks, self.jobs)) as results:
            for task, w_D in results:
                auditor.true[task.client] = w_D
                yield Progress(1, task.client, f"retrained without {task.client}")

    def _make_auditable(
        self, config: FederationConfig, workload: Workload
    ) -> FederationConfig:
        """Returns the config of a simulation of one client at a time.

        What cannot be audited is refused before anything is simulated.
        """
        require_auditable(config.algorithm)
        if config.simulate.arrivals is None:
            population = Population(config.simulate, config.seed)
            choose_clients(population.names, self.clients)
            self._require_model(config, workload, population.client(0))
        engine = EngineConfig(kind="exact")
        simulate, stop = (
            config.simulate.model_copy(update={"engine": engine}),
            config.stop,
        )
        if self.versions is not None:
            stop = type(stop)(versions=self.versions)
        return config.model_copy(update={"simulate": simulate, "stop": stop})

    def _require_model(
        self, config: FederationConfig, workload: Workload, client: Client
    ) -> None:
        """Checks that the model can be audited, on the data of one client."""
        with user_code("the model"):
            model = workload.flat()
        require_smooth(model)
        curvature = workload.curvature(model)
        if self.estimator != "hessian":
            return
        whose = f"train_data of {client.name}"
        with user_code(whose):
            samples = workload.samples(workload.train_data(client), whose)
        require_curved(curvature, initial_model(model, config.seed), samples)


influence = function_of(Influence)
