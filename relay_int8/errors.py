"""Every error that relay_int8 raises on purpose.

::

    Int8Error
    ├── ConfigError          an option, a flag or a combination of them makes no sense
    ├── FrontendError        a model file cannot be read
    ├── AccuracyError        an accuracy that was demanded cannot be reached
    ├── CalibrationError     calibration data or a table does not fit the model
    ├── UnsupportedOpError   operators that cannot be imported or compiled
    │   └── CoverageError    layers that were required to be int8 stay in float
    ├── RecordError          a tuning record cannot be read or belongs elsewhere
    ├── ArtifactError        a built artifact is damaged, altered or made for another target
    └── DeployError          a device cannot be reached or gave something else than expected

Kinds that one module alone raises and catches, as ``tuning.worker.WorkerLostError``, are there.
A message says what was found, what was expected and what to do. ``schedules`` raises its own
``ScheduleError``: it does not know this package.

Importing them needs nothing, so that the command line can answer before TVM is loaded;
``relay_int8.graph`` registers them with TVM.
"""


class Int8Error(Exception):
    """Base of everything that relay_int8 raises on purpose.

    Examples
    --------
    >>> try:
    ...     relay_int8.load("missing.ri8")
    ... except relay_int8.Int8Error as error:
    ...     print(error)
    missing.ri8: no such file; relay-int8 quantize writes artifacts (.ri8)
    """


class ConfigError(Int8Error):
    """An option, a flag or a combination of them makes no sense."""


class FrontendError(Int8Error):
    """A model file cannot be read."""


class CalibrationError(Int8Error):
    """Calibration data or a table does not fit the model."""


class AccuracyError(Int8Error):
    """An accuracy that was demanded cannot be reached, whatever is left in float."""


class UnsupportedOpError(Int8Error):
    """Operators cannot be imported or compiled."""


class CoverageError(UnsupportedOpError):
    """Layers that were required to be int8 stay in float."""


class RecordError(Int8Error):
    """A tuning record cannot be read or belongs elsewhere."""


class ArtifactError(Int8Error):
    """A built artifact is damaged, altered or made for another target."""


class DeployError(Int8Error):
    """A device cannot be reached or gave something else than expected."""


ERRORS = (
    Int8Error,
    ConfigError,
    FrontendError,
    CalibrationError,
    AccuracyError,
    UnsupportedOpError,
    CoverageError,
    RecordError,
    ArtifactError,
    DeployError,
)
"""All of them."""
