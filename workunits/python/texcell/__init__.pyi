"""Made by stubs.py from the output of texcell-wu parameters --json."""
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ._call import analyse as analyse, features as features, suggest as suggest
from ._program import Error as Error, InputError as InputError, InternalError as InternalError, Note as Note, TryLater as TryLater, UsageError as UsageError, parameters as parameters
from ._result import Result as Result, read as read

__version__: str

def glcm(
    images: Any,
    *,
    preset: Literal["hcc"] | None = ...,
    levels: Sequence[int] = ...,
    range: Sequence[int] | Literal["type", "image"] | None = ...,
    window: Mapping[str, Any] = ...,
    distances: Sequence[int] | str = ...,
    directions: Literal["all", "four"] = ...,
    roi: Mapping[str, Any] = ...,
    per_offset: bool = ...,
    features: Sequence[str] | Literal["haralick", "ibsi"] = ...,
    maps: Sequence[Mapping[str, Any]] = ...,
    **options: Any,
) -> Result: ...

def cellcount(
    images: Any,
    *,
    smooth: float | str = ...,
    background: Mapping[str, Any] | None = ...,
    threshold: int | Literal["otsu", "local"] = ...,
    classes: int = ...,
    scale: Literal["linear", "sqrt"] = ...,
    window: int | Literal["auto"] | str = ...,
    offset: int = ...,
    offset_percent: int | None = ...,
    polarity: Literal["dark", "bright", "auto"] = ...,
    connectivity: Literal[4, 8] = ...,
    fill_holes: bool = ...,
    min_area: int | Literal["auto"] | str = ...,
    max_area: int | str | None = ...,
    exclude_border: bool = ...,
    min_fill: float = ...,
    max_aspect: float | None = ...,
    min_contrast: Mapping[str, Any] | None = ...,
    split: Literal["none", "distance", "intensity"] = ...,
    h: int = ...,
    labels: Any = ...,
    **options: Any,
) -> Result: ...

def levelset(
    images: Any,
    *,
    target: float | Literal["otsu"] | None = ...,
    epsilon: float | None = ...,
    polarity: Literal["bright", "dark"] | None = ...,
    alpha: float = ...,
    iterations: int = ...,
    dt: float | Literal["cfl"] = ...,
    reinit_every: int = ...,
    band: int | Literal[0] | str = ...,
    smooth: float | str = ...,
    edge_stop: float = ...,
    stop_after: int = ...,
    init: Mapping[str, Any] | None = ...,
    **options: Any,
) -> Result: ...

def voting(
    images: Any,
    *,
    radius: float | str | None = ...,
    own_radius: bool = ...,
    sigma: float | str = ...,
    polarity: Literal["bright", "dark", "auto"] = ...,
    threshold: float | Literal["auto"] = ...,
    cone: float = ...,
    weight: Literal["gradient", "root"] = ...,
    floor: float = ...,
    refine: bool = ...,
    foreground: Literal["none", "otsu"] | None = ...,
    classes: int = ...,
    **options: Any,
) -> Result: ...

def volume(
    images: Any,
    *,
    method: Literal["threshold", "watershed"] = ...,
    membrane: int | Literal["otsu"] = ...,
    smooth: float | str = ...,
    h: float = ...,
    connectivity: Literal[6, 26] = ...,
    fill: bool = ...,
    mode: Literal["slices", "3d"] = ...,
    repair: Mapping[str, Any] | None = ...,
    min_voxels: int | str = ...,
    max_voxels: int | str | None = ...,
    exclude_border: bool = ...,
    labels: Any = ...,
    **options: Any,
) -> Result: ...

def objects(
    images: Any,
    *,
    families: Sequence[str] = ...,
    levels: int = ...,
    range: Sequence[int] | Literal["object", "image", "type"] = ...,
    distances: Sequence[int] | str = ...,
    aggregate: Literal["average", "merge"] = ...,
    texture_features: Sequence[str] | Literal["haralick", "ibsi"] = ...,
    exclude_border: bool = ...,
    **options: Any,
) -> Result: ...
