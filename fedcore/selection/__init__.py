"""Selection rules. Each method is one file; importing it here registers it."""

from fedcore.selection.all import All as All
from fedcore.selection.base import AnySelection as AnySelection
from fedcore.selection.base import Selection as Selection
from fedcore.selection.base import SelectionConfig as SelectionConfig
from fedcore.selection.base import memoryless as memoryless
from fedcore.selection.oort import Oort as Oort
from fedcore.selection.uniform import UniformSelection as UniformSelection
