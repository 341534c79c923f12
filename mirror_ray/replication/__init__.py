"""The data path: fetch -> select -> rewrite -> produce -> acknowledge.

``partition`` and its states, position, realignment and pipeline decide without I/O; ``flow``, ``fetcher`` and
``sender`` are the asyncio code around them.
"""
