"""An engine as data: a rung of the ladder, and settings that differ from it.

    cached+layers=scanned+weights=int8

Such names are what cases, tables and budgets call an engine; ``parse_engine`` and ``engine_name`` undo each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from qwenperf.errors import ConfigError, UnknownNameError
from qwenperf.workloads.defaults import DEFAULTS, best_values
from qwenperf.workloads.setting import MOST, SETTINGS, Setting, Value


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """A set of optimisations; ``workloads.setting`` says of each what its values are and what they differ in."""

    jit: bool = True
    cache: str = "static"
    shape: str = "padded"
    rotary: str = "tables"
    loop: str = "host"
    donate: bool = True
    reuse: bool = True
    position: str = "traced"
    qkv: str = "stored"
    gate_up: str = "separate"
    layers: str = "unrolled"
    contraction: str = "dot_general"
    rows: int = 1
    fusion: str = "xla"
    precision: str = "default"
    softmax: str = "f32"
    attention: str = "grouped"
    mask: str = "computed"
    window: int = 0
    key_block: int = 0
    cache_layout: str = "head-major"
    cache_dtype: str = "native"
    weights: str = "native"
    activations: str = "native"
    prefill_chunk: int = 0
    bucket: int = 0
    start: str = "request"
    compile_cache: bool = False
    xla_flags: str = "none"
    hooks: str = "none"

    def __post_init__(self) -> None:
        """Refuse what cannot be built.

        Raises:
          UnknownNameError: a value that its setting does not have.
          ConfigError: settings that exclude each other; names both.
        """
        for name, setting in SETTINGS.items():
            _check_value(setting, getattr(self, name))
        for reason in _conflicts(self):
            raise ConfigError(f"engine settings: {reason}.")

    @property
    def ahead_of_time(self) -> bool:
        """Whether programs are compiled before they are called, and refuse other shapes."""
        return self.jit and self.shape == "padded" and self.position == "traced"

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return asdict(self)


def _check_value(setting: Setting, value: object) -> None:
    if setting.least is not None:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not isinstance(value, int) or not whole or (value < setting.least and (value or 0 not in setting.values)):
            raise ConfigError(
                f"engine setting {setting.name} is {value!r}, which is not a whole number of at least {setting.least}."
            )
        if value > MOST:
            raise ConfigError(
                f"engine setting {setting.name} is {value}; positions are counted up to {MOST}.",
                advice="Leave it out, or give 0, where nothing is to be limited." if 0 in setting.values else "",
            )
    elif not any(value is known or (isinstance(known, str) and value == known) for known in setting.values):
        raise UnknownNameError(f"engine setting {setting.name}", str(value), [_text(known) for known in setting.values])


def _conflicts(settings: EngineSettings) -> Iterator[str]:
    """Say which settings exclude each other."""
    if settings.cache != "none" and (settings.cache == "concat") != (settings.shape == "growing"):
        yield f"cache={settings.cache!r} cannot have shape={settings.shape!r}"
    given = "loop='device'" if settings.loop == "device" else "donate=True"
    if settings.shape == "growing" and (settings.loop == "device" or settings.donate):
        yield f"{given} needs shape='padded': a growing state has no place to stay"
    if not settings.jit and (settings.loop == "device" or settings.donate):
        yield f"{given} needs jit=True"
    plain = EngineSettings.__dataclass_fields__
    for name in _OF_STATIC_CACHE:
        if settings.cache != "static" and getattr(settings, name) != plain[name].default:
            yield f"{name}={getattr(settings, name)!r} needs cache='static'"
    if settings.position == "static" and (settings.loop == "device" or not settings.jit):
        yield "position='static' needs jit=True and loop='host': one program has one position"
    yield from _attention_conflicts(settings)
    if settings.prefill_chunk and settings.bucket >= settings.prefill_chunk:
        yield (
            f"bucket={settings.bucket} needs a prefill_chunk larger than it, not {settings.prefill_chunk}: only a "
            "last chunk is padded to a bucket"
        )
    if settings.start == "saved" and settings.compile_cache:
        yield "compile_cache=True has nothing to keep with start='saved', and spoils what is saved"
    if settings.start != "request" and not settings.ahead_of_time:
        yield f"start={settings.start!r} needs jit=True and position='traced': programs that are compiled before a call"
    yield from _conflicts_of_weights(settings)


def _conflicts_of_weights(settings: EngineSettings) -> Iterator[str]:
    if settings.layers == "scanned" and (settings.cache == "concat" or not settings.jit):
        what = "jit=True" if not settings.jit else "a cache of fixed shape, not cache='concat'"
        yield f"layers='scanned' needs {what}"
    if settings.fusion == "barriers" and not settings.jit:
        yield "fusion='barriers' needs jit=True: operations that are dispatched one by one are fused with nothing"
    if settings.contraction != EngineSettings.contraction and settings.weights != "native":
        yield f"contraction={settings.contraction!r} needs weights='native': quantised products have one form"
    if settings.activations == "int8" and settings.weights == "native":
        yield "activations='int8' needs quantised weights"


def _attention_conflicts(settings: EngineSettings) -> Iterator[str]:
    if settings.mask == "table" and settings.cache != "static":
        yield "mask='table' needs cache='static': sequences that grow have no table"
    if not settings.reuse and settings.shape == "growing":
        yield "reuse=False needs shape='padded': a growing state is never used again"
    if settings.attention == "dot_product_attention" and (settings.softmax != "f32" or settings.key_block):
        what = "key_block=0" if settings.key_block else "softmax='f32'"
        yield f"attention='dot_product_attention' needs {what}: it is one function of JAX, and has its own softmax"
    if settings.key_block and settings.softmax != "f32":
        yield f"key_block={settings.key_block} needs softmax='f32': sums that run over blocks are f32"


_OF_STATIC_CACHE = (
    "position", "window", "key_block", "cache_layout", "cache_dtype", "prefill_chunk", "bucket", "start", "hooks",
)  # fmt: skip
"""What only an engine with a static cache can have."""

RUNGS: dict[str, EngineSettings] = {
    "eager": EngineSettings(jit=False, cache="none", shape="growing", rotary="recomputed", donate=False),
    "naive": EngineSettings(cache="none", shape="growing", rotary="recomputed", donate=False),
    "padded": EngineSettings(cache="none", shape="padded", donate=False),
    "cached-concat": EngineSettings(cache="concat", shape="growing", donate=False),
    "cached-host": EngineSettings(cache="static", shape="padded", loop="host"),
    "cached": EngineSettings(cache="static", shape="padded", loop="device"),
}
"""The rungs of the ladder, slowest first: each adds one optimisation to the one before it."""

BEST: dict[str, EngineSettings] = {
    f"best-{platform}": replace(RUNGS["cached"], **best_values(platform))  # type: ignore[arg-type]
    for platform in DEFAULTS
}
"""``cached`` with the fastest measured value of each setting, by platform; see ``defaults``."""


def rung_of(engine: str) -> str:
    """Return the rung that an engine's name starts with."""
    return engine.split("+", 1)[0]


def parse_engine(engine: str) -> EngineSettings:
    """Return the settings of ``rung+setting=value+...``.

    Raises:
      UnknownNameError: no such rung, setting or value; offers the nearest name.
      ConfigError: a setting given twice or without a value, or settings that exclude each other.
    """
    rung, *changes = engine.split("+")
    if rung not in RUNGS | BEST:
        raise UnknownNameError("engine", rung, RUNGS | BEST)
    given: dict[str, Value] = {}
    for change in changes:
        name, separator, text = change.partition("=")
        if name not in SETTINGS:
            raise UnknownNameError("engine setting", name, SETTINGS)
        if not separator or name in given:
            why = "is given twice" if name in given else "has no value"
            raise ConfigError(f"engine {engine!r}: {name} {why}.", advice="Write rung+setting=value.")
        given[name] = _value(SETTINGS[name], text)
    return replace((RUNGS | BEST)[rung], **given)  # type: ignore[arg-type]


def engine_name(settings: EngineSettings, rung: str = "cached") -> str:
    """Return the name of ``settings``: a rung's own, or ``rung`` with what differs from it, in the order of fields."""
    for name, known in RUNGS.items():
        if known == settings:
            return name
    base = RUNGS[rung]
    names = [field.name for field in fields(settings) if getattr(settings, field.name) != getattr(base, field.name)]
    return "+".join((rung, *(f"{name}={_text(getattr(settings, name))}" for name in names)))


def _value(setting: Setting, text: str) -> Value:
    if setting.least is not None:
        try:
            return int(text)
        except ValueError:
            raise ConfigError(f"engine setting {setting.name} is {text!r}, which is not a whole number.") from None
    for known in setting.values:
        if _text(known) == text:
            return known
    raise UnknownNameError(f"engine setting {setting.name}", text, [_text(known) for known in setting.values])


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
