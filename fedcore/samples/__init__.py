"""Data of one client as rows: how many, and the batch of some of them."""

from fedcore.samples.base import ArraySamples as ArraySamples
from fedcore.samples.base import Collate as Collate
from fedcore.samples.base import IndexedSamples as IndexedSamples
from fedcore.samples.base import ReadAhead as ReadAhead
from fedcore.samples.base import Samples as Samples
from fedcore.samples.base import Wanted as Wanted
from fedcore.samples.base import describe as describe
from fedcore.samples.given import as_samples as as_samples
from fedcore.samples.given import targets_of as targets_of
from fedcore.samples.reading import LabelsSeen as LabelsSeen
from fedcore.samples.reading import Reading as Reading
from fedcore.samples.reading import evaluation_data as evaluation_data
from fedcore.samples.reading import is_in_memory as is_in_memory
from fedcore.samples.reading import read as read
from fedcore.samples.rows import arrays_of as arrays_of
from fedcore.samples.rows import form as form
from fedcore.samples.rows import join_rows as join_rows
from fedcore.samples.rows import leaves as leaves
from fedcore.samples.rows import require_stackable as require_stackable
from fedcore.samples.rows import stack as stack
from fedcore.samples.rows import take_rows as take_rows
from fedcore.samples.subset import Subset as Subset
