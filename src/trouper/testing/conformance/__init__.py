"""Suites that every implementation of a protocol must pass: one module per protocol.

Each module offers ``LAWS`` (plain async functions that take a fresh subject) and, where state
matters, a Hypothesis state machine against a model. Import the module that is needed::

    from trouper.testing.conformance import journal
"""

__all__: tuple[str, ...] = ()
