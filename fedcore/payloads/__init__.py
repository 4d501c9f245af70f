"""The messages that travel: one file a format; the import is the registration."""

from fedcore.payloads.base import Declared as Declared
from fedcore.payloads.base import Format as Format
from fedcore.payloads.base import Layout as Layout
from fedcore.payloads.base import Payload as Payload
from fedcore.payloads.base import format_of as format_of
from fedcore.payloads.base import formats as formats
from fedcore.payloads.base import pack as pack
from fedcore.payloads.base import pack_parts as pack_parts
from fedcore.payloads.base import room as room
from fedcore.payloads.base import unpack as unpack
from fedcore.payloads.block import block_payload as block_payload
from fedcore.payloads.dense import dense_payload as dense_payload
from fedcore.payloads.half import half_payload as half_payload
from fedcore.payloads.indices import pack_indices as pack_indices
from fedcore.payloads.indices import unpack_indices as unpack_indices
from fedcore.payloads.levels import level_values as level_values
from fedcore.payloads.levels import levels_payload as levels_payload
from fedcore.payloads.low_rank import low_rank_payload as low_rank_payload
from fedcore.payloads.meaning import add as add
from fedcore.payloads.meaning import cancels as cancels
from fedcore.payloads.meaning import decode as decode
from fedcore.payloads.meaning import exact as exact
from fedcore.payloads.meaning import magnitude as magnitude
from fedcore.payloads.meaning import merge as merge
from fedcore.payloads.meaning import negative as negative
from fedcore.payloads.meaning import prepare as prepare
from fedcore.payloads.meaning import rows as rows
from fedcore.payloads.meaning import support as support
from fedcore.payloads.natural import natural_payload as natural_payload
from fedcore.payloads.parts import parts_payload as parts_payload
from fedcore.payloads.quantised import quantised_payload as quantised_payload
from fedcore.payloads.rotated import rotated_payload as rotated_payload
from fedcore.payloads.seeded import draw_support as draw_support
from fedcore.payloads.seeded import seeded_payload as seeded_payload
from fedcore.payloads.semi_discrete import Term as Term
from fedcore.payloads.semi_discrete import (
    semi_discrete_payload as semi_discrete_payload,
)
from fedcore.payloads.semi_discrete import stack_terms as stack_terms
from fedcore.payloads.sign import sign_payload as sign_payload
from fedcore.payloads.sparse import sparse_payload as sparse_payload
from fedcore.payloads.values import overwrite as overwrite
from fedcore.payloads.values import values_payload as values_payload
