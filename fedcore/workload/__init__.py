"""The contracts that users implement: a model, its training and evaluation, data."""

from fedcore.workload.base import TestData as TestData
from fedcore.workload.base import Workload as Workload
from fedcore.workload.named import GradientWorkload as GradientWorkload
from fedcore.workload.named import NamedModel as NamedModel
from fedcore.workload.own_loop import NO_CURVATURE as NO_CURVATURE
from fedcore.workload.own_loop import LoopWorkload as LoopWorkload
from fedcore.workload.own_loop import require_plain as require_plain
from fedcore.workload.own_loop import train_by_loop as train_by_loop
from fedcore.workload.own_loop import wrap_samples as wrap_samples
from fedcore.workload.task import NOBODY as NOBODY
from fedcore.workload.task import Client as Client
from fedcore.workload.task import LocalTask as LocalTask
from fedcore.workload.training_task import Trained as Trained
from fedcore.workload.training_task import TrainingTask as TrainingTask
from fedcore.workload.workers import require_batches as require_batches
from fedcore.workload.workers import require_size as require_size
from fedcore.workload.workers import require_sums as require_sums
