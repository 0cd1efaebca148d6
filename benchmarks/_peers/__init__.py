"""The systems that are compared, each with the same benches; one process per system.

Every module has ``BENCHES``: name -> function of (operations, actors). `tell` puts bursts in and
waits until each is handled; handlers count down and open a gate, the same way everywhere.
"""
