"""The plain data shared by all packages: frozen dataclasses without third-party dependencies.

Token positions are 1-based output tokens throughout. Times are seconds on the process's anchored monotonic
clock (:mod:`stresstest.clock`). ``None`` means "not measured", never zero.
"""

from stresstest.model.comparison import ChangedSetting as ChangedSetting
from stresstest.model.comparison import CheckVerdict as CheckVerdict
from stresstest.model.comparison import Comparison as Comparison
from stresstest.model.comparison import ComparisonSide as ComparisonSide
from stresstest.model.comparison import Finding as Finding
from stresstest.model.comparison import FindingKind as FindingKind
from stresstest.model.comparison import Method as Method
from stresstest.model.comparison import Severity as Severity
from stresstest.model.diagnosis import NEXT_FAILURE_RIGOR as NEXT_FAILURE_RIGOR
from stresstest.model.diagnosis import Ablation as Ablation
from stresstest.model.diagnosis import Arm as Arm
from stresstest.model.diagnosis import ArmResult as ArmResult
from stresstest.model.diagnosis import CauseLink as CauseLink
from stresstest.model.diagnosis import Diagnosis as Diagnosis
from stresstest.model.diagnosis import EntropyShape as EntropyShape
from stresstest.model.diagnosis import PairedEffect as PairedEffect
from stresstest.model.diagnosis import SplitRemedy as SplitRemedy
from stresstest.model.generation import Evidence as Evidence
from stresstest.model.generation import Generation as Generation
from stresstest.model.generation import GenerationLoader as GenerationLoader
from stresstest.model.generation import GenerationRecord as GenerationRecord
from stresstest.model.generation import GenerationVerdict as GenerationVerdict
from stresstest.model.generation import ServiceFailure as ServiceFailure
from stresstest.model.generation import Symptom as Symptom
from stresstest.model.generation import Zone as Zone
from stresstest.model.request import PARAMETERS as PARAMETERS
from stresstest.model.request import SAMPLING as SAMPLING
from stresstest.model.request import Decoding as Decoding
from stresstest.model.request import GenerationRequest as GenerationRequest
from stresstest.model.request import Job as Job
from stresstest.model.request import Message as Message
from stresstest.model.request import RunSettings as RunSettings
from stresstest.model.result import RIGORS as RIGORS
from stresstest.model.result import Observation as Observation
from stresstest.model.result import PlaneVerdict as PlaneVerdict
from stresstest.model.result import Rigor as Rigor
from stresstest.model.result import Run as Run
from stresstest.model.result import RunResult as RunResult
from stresstest.model.result import Threshold as Threshold
from stresstest.model.server import GPU_READINGS as GPU_READINGS
from stresstest.model.server import EndpointProfile as EndpointProfile
from stresstest.model.server import GpuDevice as GpuDevice
from stresstest.model.server import GpuSample as GpuSample
from stresstest.model.server import GpuSummary as GpuSummary
from stresstest.model.server import MissingCapability as MissingCapability
from stresstest.model.server import ServerSample as ServerSample
from stresstest.model.server import ServerSummary as ServerSummary
from stresstest.model.server import clock_events as clock_events
from stresstest.model.tokens import Token as Token
from stresstest.model.tokens import TokenColumns as TokenColumns
from stresstest.model.tokens import TokenSummary as TokenSummary
from stresstest.model.tokens import entropies as entropies
from stresstest.model.words import AnswerPart as AnswerPart
from stresstest.model.words import Basis as Basis
from stresstest.model.words import DocumentKind as DocumentKind
from stresstest.model.words import FailureKind as FailureKind
from stresstest.model.words import Phase as Phase
from stresstest.model.words import Plane as Plane
from stresstest.model.words import RunStatus as RunStatus
from stresstest.model.words import Subject as Subject
from stresstest.model.words import SymptomKind as SymptomKind
from stresstest.model.words import ZoneKind as ZoneKind
