"""The base of the variants of local Adam."""

from pydantic import Field

from fedcore.arrays import array_namespace
from fedcore.clients._descent import Adaptive, Descent
from fedcore.clients._local import LocalConfig
from fedcore.clients.base import TakeSteps, Trained
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedcore.typing import Array, Counts, State


class AdamConfig(LocalConfig):
    """Settings of all variants of local Adam."""

    lr: float = Field(default=0.001, gt=0)
    """Learning rate."""
    beta_1: float = Field(default=0.9, ge=0, lt=1)
    """β₁, of the mean of gradients."""
    beta_2: float = Field(default=0.999, ge=0, lt=1)
    """β₂, of the mean of their squares."""
    eps: float = Field(default=1e-8, ge=1e-12)
    """ε, added to the root of the mean of squares."""
    keep_moments: bool = False
    """Keep both means and the number of their steps from task to task."""

    @property
    def is_plain(self) -> bool:
        """False: a training loop of one's own is told the settings of SGD alone."""
        return False

    def check(self, model: ParamSpec) -> None:
        """Refuses to keep the moments of a model of which a part is the client's own.

        The moments of that part begin at zero with each task, so a count of steps that
        was kept would not correct their bias.

        Raises:
            ConfigError: moments are kept, and the model has local tensors.
        """
        super().check(model)
        if self.keep_moments and model.local:
            raise ConfigError(
                f"client.keep_moments: the workload keeps {model.local[0].name!r} on "
                "the client, whose moments begin anew with each task; leave "
                "keep_moments out, or let no tensor be local"
            )

    def rule(self) -> Descent:
        """Returns the rule of the steps."""
        adaptive = Adaptive(self.beta_2, self.eps)
        return super().rule()._replace(momentum=self.beta_1, adaptive=adaptive)

    def _run(
        self, start_D: Array, steps: int | Counts, take: TakeSteps, state: State
    ) -> Trained:
        rule = self.rule()
        if self.keep_moments:
            kept_D = _none(start_D) if state is None else state
            rule = _after(rule, kept_D, start_D.shape[-1])
        taken = take(start_D, rule)
        kept = _moments(taken.rule) if self.keep_moments else None
        return Trained(taken.delta_D, taken.loss, kept)


def _after(rule: Descent, kept: Array, dim: int) -> Descent:
    """Returns the rule with the moments that a client has kept: [v, s, steps]."""
    assert rule.adaptive is not None
    adaptive = rule.adaptive._replace(
        squares_D=kept[..., dim : 2 * dim], taken_1=kept[..., 2 * dim :]
    )
    return rule._replace(velocity_D=kept[..., :dim], adaptive=adaptive)


def _moments(rule: Descent) -> Array:
    """Returns [v, s, steps] as one array, (2 D + 1,) or one a row."""
    assert rule.adaptive is not None
    xp = array_namespace(rule.velocity_D)
    parts = [rule.velocity_D, rule.adaptive.squares_D, rule.adaptive.taken_1]
    return xp.concat(parts, axis=-1)


def _none(like_D: Array) -> Array:
    """Returns the moments before the first step."""
    xp = array_namespace(like_D)
    shape = (*like_D.shape[:-1], 2 * like_D.shape[-1] + 1)
    return xp.zeros(shape, dtype=like_D.dtype, device=like_D.device)
