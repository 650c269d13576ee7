"""Determines the plane of failures, from evidence or by intervention. Pure."""

from stresstest.diagnosis.evidence.server import annotate_planes
from stresstest.diagnosis.planes import assign_suspected_plane, plane_verdict

__all__ = ["annotate_planes", "assign_suspected_plane", "plane_verdict"]
