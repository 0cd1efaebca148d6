"""A durable actor runtime for trio."""

from ._version import __version__ as __version__
