"""What tests of trouper, and of programs built on it, have in common.

The conformance suites are in `trouper.testing.conformance`; they need the ``testing`` extra.
"""

__all__: tuple[str, ...] = ()
