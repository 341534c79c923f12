"""The data path: fetch -> select -> rewrite -> produce -> acknowledge.

``session``, ``select`` and ``partition`` decide and are pure; the others are their asyncio shell.
"""
