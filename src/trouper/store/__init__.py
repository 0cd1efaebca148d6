"""The journal: units committed one after the other, and the codec of what they write.

`LmdbStore` keeps it on disk, `MemoryStore` in an object; both obey `Store` and the conformance
suite in `trouper.testing.conformance.journal`.
"""

from ._backup import Backup as Backup
from ._backup import backup as backup
from ._check import Invariant as Invariant
from ._check import Rows as Rows
from ._check import check as check
from ._codec import canonical as canonical
from ._codec import decode as decode
from ._codec import decode_vouched as decode_vouched
from ._codec import encode as encode
from ._compact import Compacted as Compacted
from ._compact import compact as compact
from ._dump import DumpedRow as DumpedRow
from ._dump import dump as dump
from ._durable import LmdbStore as LmdbStore
from ._fingerprint import fingerprint as fingerprint
from ._fingerprint import fingerprint_of as fingerprint_of
from ._history import HISTORY as HISTORY
from ._history import ROWS as ROWS
from ._history import BlockRow as BlockRow
from ._history import HeadRow as HeadRow
from ._history import Recorded as Recorded
from ._history import RecordsRow as RecordsRow
from ._history import block_key as block_key
from ._history import head_key as head_key
from ._history import ident_of as ident_of
from ._history import read_head as read_head
from ._history import read_records as read_records
from ._history import read_rows as read_rows
from ._history import rebuild as rebuild
from ._history import records_key as records_key
from ._keys import TABLES as TABLES
from ._keys import log_key as log_key
from ._keys import log_sequence as log_sequence
from ._keys import row_key as row_key
from ._memory import MemoryStore as MemoryStore
from ._protocol import Store as Store
from ._protocol import Submission as Submission
from ._protocol import Tx as Tx
from ._protocol import Unit as Unit
from ._read import Reading as Reading
from ._read import read as read
from ._readers import Reader as Reader
from ._records import decode_record as decode_record
from ._records import encode_record as encode_record
from ._records import is_record as is_record
from ._records import record as record
from ._records import revised as revised
from ._records import upcaster as upcaster
from ._sealed import Sealed as Sealed
from ._sealed import SealedRow as SealedRow
from ._sealed import SealedUnit as SealedUnit
from ._shape import PLAIN as PLAIN
from ._shape import Shape as Shape
from ._shape import register_type as register_type
from ._shape import shape_of as shape_of
from ._shape import shapes_of as shapes_of
from ._short import Coded as Coded
from ._short import MapCode as MapCode
from ._stat import Stat as Stat
from ._stat import stat as stat
from ._trail import Places as Places
from ._trail import Trail as Trail
from ._verify import Finding as Finding
from ._verify import Report as Report
from ._verify import verify as verify

__all__ = (
    "HISTORY",
    "PLAIN",
    "ROWS",
    "TABLES",
    "Backup",
    "BlockRow",
    "Coded",
    "Compacted",
    "DumpedRow",
    "Finding",
    "HeadRow",
    "Invariant",
    "LmdbStore",
    "MapCode",
    "MemoryStore",
    "Places",
    "Reader",
    "Reading",
    "Recorded",
    "RecordsRow",
    "Report",
    "Rows",
    "Sealed",
    "SealedRow",
    "SealedUnit",
    "Shape",
    "Stat",
    "Store",
    "Submission",
    "Trail",
    "Tx",
    "Unit",
    "backup",
    "block_key",
    "canonical",
    "check",
    "compact",
    "decode",
    "decode_record",
    "decode_vouched",
    "dump",
    "encode",
    "encode_record",
    "fingerprint",
    "fingerprint_of",
    "head_key",
    "ident_of",
    "is_record",
    "log_key",
    "log_sequence",
    "read",
    "read_head",
    "read_records",
    "read_rows",
    "rebuild",
    "record",
    "records_key",
    "register_type",
    "revised",
    "row_key",
    "shape_of",
    "shapes_of",
    "stat",
    "upcaster",
    "verify",
)
