"""A durable actor runtime for trio.

A troupe of actors runs in one process under supervision; the ones that matter keep an embedded
journal and survive ``kill -9``. Start at `open_system`.
"""

# The layers, outermost first. Imports point down only (`make layers`); this facade is the one
# place that knows every package, and it loads none that costs an extra or an engine.
#
#   cli   testing                      what people hold in their hands
#   cells                              WebAssembly guests: a kind of runner that actors can be given
#   actors                             the core, then groups, operations, activations
#   mailbox | store | supervision      three ground floors that never import each other
#   _trio                              the door to trio's private parts
#   errors, _ids, _version             import nothing of ours

from ._version import __version__ as __version__

__all__ = ("__version__",)
