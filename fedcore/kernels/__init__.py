"""The inner loops of codecs and local steps: compiled where possible, or NumPy.

Each function here takes any array. A float32 array that lies in one piece of NumPy's
memory goes through a loop in C (the files in ``c/``, named as the files here), if it
was compiled when the package was installed; everything else through the lines beside
the call, for NumPy and for torch. In NumPy both give the same bytes: every sum has a
fixed order, and random numbers are counted, not drawn one after the other. So a model
does not depend on which machine of a federation had a compiler.

``LATECOMER_KERNELS=numpy`` in the environment leaves the compiled loops alone, and
``LATECOMER_KERNELS=compiled`` makes it an error that there are none.
"""

from fedcore.kernels.adam import AdamStep as AdamStep
from fedcore.kernels.adam import adam as adam
from fedcore.kernels.buckets import add_levels as add_levels
from fedcore.kernels.buckets import norms as norms
from fedcore.kernels.buckets import put_levels as put_levels
from fedcore.kernels.buckets import quantise as quantise
from fedcore.kernels.library import in_use as in_use
from fedcore.kernels.pull import add_pull as add_pull
from fedcore.kernels.rice import read_rice as read_rice
from fedcore.kernels.rice import rice as rice
from fedcore.kernels.rice import sum_shifted as sum_shifted
from fedcore.kernels.rows import add_rows as add_rows
from fedcore.kernels.selection import above as above
from fedcore.kernels.selection import largest_indices as largest_indices
from fedcore.kernels.signs import add_signs as add_signs
from fedcore.kernels.signs import positive as positive
from fedcore.kernels.signs import put_signs as put_signs
from fedcore.kernels.sums import absolute_sums as absolute_sums
from fedcore.kernels.sums import plain_sums as plain_sums
from fedcore.kernels.sums import square_sums as square_sums
