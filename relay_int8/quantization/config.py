"""What the user asks of the quantizer: one small frozen object, presets in one table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, get_args

from relay_int8.argument_types import checked
from relay_int8.errors import ConfigError
from relay_int8.numerics.qparams import Scheme
from schedules.rounding import REQUANTIZE, Requantize

Equalization = Literal["none", "depthwise", "cross-layer", "smooth"]
Thresholds = Literal["method", "output-error"]
Correction = Literal["none", "analytic", "empirical"]
RoundingName = Literal["nearest", "adaround", "descent"]
Functions = Literal["exact", "quick"]


@dataclass(frozen=True, kw_only=True)
class Tools:
    """Accuracy tools beside calibration; all of them work on the calibration images.

    Parameters
    ----------
    equalization
        Scale channels of the float network so that weights ("cross-layer"), or activations
        ("smooth"), have ranges more alike (``relay_int8.quantization.refine.equalize``); or those
        in front of depthwise layers, behind linear ones, and of norms that dense layers read, where
        calibration finds the factors by the way ("depthwise",
        ``relay_int8.quantization.refine.depthwise``).
    thresholds
        "method": ranges are the calibration method's; "output-error": of several candidates the one
        that disturbs the next layers least (``relay_int8.quantization.refine.thresholds``).
    correction
        The mean error that a layer's bias is freed of: that of its rounded weights, from the means
        of its inputs ("analytic"), or the whole, from the quantized network ("empirical").
    rounding
        Weights to the nearest integer, or up or down as the layer's output wants it, by AdaRound's
        relaxation or by coordinate descent (``relay_int8.numerics.rounding``).
    unify
        Let what feeds a LeakyReLU or PReLU of its own have the range of its result, as TPU-MLIR
        does; pads, pools and other moves share their input's range anyhow.
    functions
        Where swish, GELU and their like are computed from a layer's sums, by its kernel, and not
        from bytes, by a table: everywhere ("exact"), or where that costs little ("quick"). In
        networks of attention the two are the same.

    Raises
    ------
    ConfigError
        If one of them has no such setting, or rounding is to follow outputs that are not looked at.
    """

    equalization: Equalization = "depthwise"
    thresholds: Thresholds = "method"
    correction: Correction = "analytic"
    rounding: RoundingName = "nearest"
    unify: bool = False
    functions: Functions = "exact"

    def __post_init__(self) -> None:
        for name, known in SETTINGS.items():
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"{name} {getattr(self, name)!r} is unknown; choose one of {', '.join(known)}"
                )
        if self.rounding != "nearest" and self.correction != "empirical":
            raise ConfigError(
                f'rounding "{self.rounding}" looks at the quantized network\'s own outputs; '
                'it needs the correction "empirical"'
            )

    @property
    def need_images(self) -> bool:
        """Whether a calibration table is not enough."""
        return (
            self.equalization in ("cross-layer", "smooth")
            or self.thresholds != "method"
            or self.correction == "empirical"
        )


SETTINGS = {
    "equalization": get_args(Equalization),
    "thresholds": get_args(Thresholds),
    "correction": get_args(Correction),
    "rounding": get_args(RoundingName),
    "functions": get_args(Functions),
}
"""The settings of each tool."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Integer types of activations; weights are s8 per channel.

    Parameters
    ----------
    non_negative, one_sided, signed
        Of those that cannot be negative, those that reach far on one side of zero at most, as what
        swish gives (``relay_int8.quantization.signs``), and all others.
    tools
        What is done for accuracy, unless the user says.
    """

    non_negative: Scheme
    one_sided: Scheme
    signed: Scheme
    tools: Tools = field(default_factory=Tools)


AUTO = "auto"
ACCURATE = Tools(thresholds="output-error", correction="empirical", rounding="descent")
PRESETS = {
    "int8": Preset(non_negative="u8", one_sided="asymmetric", signed="s8"),
    "int8-symmetric": Preset(
        non_negative="s8", one_sided="s8", signed="s8", tools=Tools(equalization="none")
    ),
    "int8-asymmetric": Preset(non_negative="u8", one_sided="asymmetric", signed="asymmetric"),
    "int8-accurate": Preset(non_negative="u8", one_sided="asymmetric", signed="s8", tools=ACCURATE),
    AUTO: Preset(non_negative="u8", one_sided="asymmetric", signed="s8"),
}
"""int8-symmetric is TensorRT's scheme, whose tables know no factors of channels; int8-asymmetric
gives signed tensors a zero point; auto tries the others' schemes and all tools on the calibration
images (``quantization.refine.auto``)."""


@checked
@dataclass(frozen=True, kw_only=True)
class QuantConfig:
    """How to quantize a network.

    Parameters
    ----------
    preset
        A key of ``PRESETS``.
    method
        Name of the calibration method (``relay_int8.calibration.METHODS``).
    exclude
        What stays in float: names of tensors, or operator types such as ``conv2d``.
    bias_correction
        Take the mean error of quantized weights out of each layer's bias
        (``relay_int8.numerics.bias_correction``). False: no correction, whatever the tools say.
    tools
        What is done for accuracy; None: the preset's.
    requantize
        How sums become integers: "float" multipliers, or fixed point with the rounding "gemmlowp",
        "tflite" or "tpu-mlir" (``numerics.fixed_point``). Accuracy tools simulate "float".
    require_int8
        Make a layer that stays in float for any reason but ``exclude`` an error; with "products"
        only one that multiplies and sums, so that the norms of a transformer may be floats.
    budget
        Seconds after which preset "auto" tries nothing more and takes the best so far; None: it
        tries all. What is chosen then depends on the computer.

    Raises
    ------
    ConfigError
        If the preset or the rounding is unknown, or preset and tools exclude each other.

    Examples
    --------
    >>> QuantConfig(method="percentile", exclude=("softmax",)).applied.correction
    'analytic'
    """

    preset: str = "int8-asymmetric"
    method: str = "mse-affine"
    exclude: tuple[str, ...] = ()
    bias_correction: bool = True
    tools: Tools | None = None
    requantize: Requantize = "float"
    require_int8: bool | Literal["products"] = False
    budget: float | None = None

    def __post_init__(self) -> None:
        self._require_budget()
        if self.require_int8 not in (False, True, "products"):
            raise ConfigError(
                f"require_int8 is {self.require_int8!r}; pass True for every layer, or "
                '"products" for those that multiply and sum'
            )
        if self.requantize not in REQUANTIZE:
            known = ", ".join(REQUANTIZE)
            raise ConfigError(f"requantize {self.requantize!r} is unknown; choose one of {known}")
        if self.preset not in PRESETS:
            known = ", ".join(PRESETS)
            raise ConfigError(f"preset {self.preset!r} is unknown; choose one of {known}")
        if self.applied.unify and self.scheme.signed == "asymmetric":
            raise ConfigError(
                f"unify=yes makes two tensors share a threshold of both signs, and preset "
                f"{self.preset} gives each sign its own; choose preset int8 or int8-symmetric"
            )

    def _require_budget(self) -> None:
        if self.budget is None:
            return
        if self.preset != AUTO:
            raise ConfigError(
                f"a budget of {self.budget} s was given, and preset {self.preset} searches "
                f"nothing; leave it out, or choose preset {AUTO}"
            )
        if not self.budget > 0:
            raise ConfigError(f"the budget is {self.budget} s; a number above zero is expected")

    def with_settings(self, settings: Iterable[str]) -> QuantConfig:
        """Return it with settings of single accuracy tools, as ``--tool`` takes them.

        Examples
        --------
        >>> QuantConfig().with_settings(["equalization=smooth"]).applied.equalization
        'smooth'

        Raises
        ------
        ConfigError
            If a name or a value is unknown.
        """
        tools = chosen_tools(self.preset, settings)
        return self if tools is None else replace(self, tools=tools)

    @property
    def requantize_text(self) -> str:
        """The requantization mode, as commands and reports name it."""
        return "float" if self.requantize == "float" else f"fixed ({self.requantize})"

    @property
    def scheme(self) -> Preset:
        """The preset's integer types."""
        return PRESETS[self.preset]

    @property
    def applied(self) -> Tools:
        """The tools that are used."""
        tools = self.tools or self.scheme.tools
        if self.bias_correction:
            return tools
        return replace(tools, correction="none", rounding="nearest")


def chosen_tools(preset: str, settings: Iterable[str]) -> Tools | None:
    """Return a preset's tools with ``NAME=VALUE`` settings of the user's; None without any.

    Raises
    ------
    ConfigError
        If the preset, a name or a value is unknown.
    """
    fields: dict[str, str | bool] = {}
    for text in settings:
        name, _, value = text.partition("=")
        if name == "unify" and value in ("yes", "no"):
            fields[name] = value == "yes"
        elif name in SETTINGS:
            fields[name] = value
        else:
            known = ", ".join(f"{key}={'|'.join(values)}" for key, values in SETTINGS.items())
            raise ConfigError(f"tool {text!r} is unknown; there are {known}, unify=yes|no")
    if not fields:
        return None
    base = asdict(QuantConfig(preset=preset).applied)
    return Tools(**{**base, **fields})
