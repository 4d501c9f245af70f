"""The messages that travel: one file a format; the import is the registration."""

from fedcore.payloads.base import Format as Format
from fedcore.payloads.base import Layout as Layout
from fedcore.payloads.base import Payload as Payload
from fedcore.payloads.base import add as add
from fedcore.payloads.base import decode as decode
from fedcore.payloads.base import formats as formats
from fedcore.payloads.base import magnitude as magnitude
from fedcore.payloads.base import pack as pack
from fedcore.payloads.base import pack_parts as pack_parts
from fedcore.payloads.base import rows as rows
from fedcore.payloads.base import support as support
from fedcore.payloads.base import unpack as unpack
from fedcore.payloads.dense import dense_payload as dense_payload
from fedcore.payloads.quantised import quantised_payload as quantised_payload
from fedcore.payloads.seeded import seeded_indices as seeded_indices
from fedcore.payloads.seeded import seeded_payload as seeded_payload
from fedcore.payloads.sign import sign_payload as sign_payload
from fedcore.payloads.sparse import pack_indices as pack_indices
from fedcore.payloads.sparse import sparse_payload as sparse_payload
from fedcore.payloads.sparse import unpack_indices as unpack_indices
from fedcore.payloads.values import overwrite as overwrite
from fedcore.payloads.values import values_payload as values_payload
