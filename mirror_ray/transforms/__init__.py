"""Records changed on the way: what a user writes (``Transform``, ``Record``), and what is there already."""

from mirror_ray.transforms.ready import FilterByKey, InsertHeader, MaskJsonFields, Route
from mirror_ray.transforms.record import Record
from mirror_ray.transforms.transform import Result, Transform

__all__ = ["FilterByKey", "InsertHeader", "MaskJsonFields", "Record", "Result", "Route", "Transform"]
