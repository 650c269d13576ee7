"""Which plane a failure lives on: by evidence, worded as the suspicion it is. Pure."""

from stresstest.diagnosis.evidence import annotate
from stresstest.diagnosis.planes import plane_verdict, suspect

__all__ = ["annotate", "plane_verdict", "suspect"]
