"""Names and types of all functions of the language."""

from __future__ import annotations

from .nodes import Kind, Signature

_VECTOR_TO_VECTOR = [
    "abs",
    "absent",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "deg",
    "exp",
    "floor",
    "histogram_avg",
    "histogram_count",
    "histogram_stddev",
    "histogram_stdvar",
    "histogram_sum",
    "ln",
    "log10",
    "log2",
    "rad",
    "sgn",
    "sin",
    "sinh",
    "sort",
    "sort_desc",
    "sqrt",
    "start_timestamp",
    "tan",
    "tanh",
    "timestamp",
]

_MATRIX_TO_VECTOR = [
    "absent_over_time",
    "avg_over_time",
    "changes",
    "count_over_time",
    "delta",
    "deriv",
    "first_over_time",
    "idelta",
    "increase",
    "irate",
    "last_over_time",
    "mad_over_time",
    "max_over_time",
    "min_over_time",
    "present_over_time",
    "rate",
    "resets",
    "stddev_over_time",
    "stdvar_over_time",
    "sum_over_time",
    "ts_of_first_over_time",
    "ts_of_last_over_time",
    "ts_of_max_over_time",
    "ts_of_min_over_time",
]

_TIME_PARTS = ["day_of_month", "day_of_week", "day_of_year", "days_in_month", "hour", "minute", "month", "year"]

_V: Kind = "vector"
_M: Kind = "matrix"
_N: Kind = "scalar"
_S: Kind = "string"

_OTHERS = (
    Signature("clamp", (_V, _N, _N), _V),
    Signature("clamp_max", (_V, _N), _V),
    Signature("clamp_min", (_V, _N), _V),
    Signature("double_exponential_smoothing", (_M, _N, _N), _V),
    Signature("end", (), _N),
    Signature("histogram_fraction", (_N, _N, _V), _V),
    Signature("histogram_quantile", (_N, _V), _V),
    Signature("histogram_quantiles", (_V, _S, _N, _N), _V, 9),
    Signature("holt_winters", (_M, _N, _N), _V),
    Signature("info", (_V, _V), _V, 1),
    Signature("integral", (_M, _N), _V, 1),
    Signature("label_join", (_V, _S, _S, _S), _V, -1),
    Signature("label_replace", (_V, _S, _S, _S, _S), _V),
    Signature("max_of", (_N, _N), _N),
    Signature("min_of", (_N, _N), _N),
    Signature("pi", (), _N),
    Signature("predict_linear", (_M, _N), _V),
    Signature("quantile_over_time", (_N, _M), _V),
    Signature("range", (), _N),
    Signature("round", (_V, _N), _V, 1),
    Signature("scalar", (_V,), _N),
    Signature("sort_by_label", (_V, _S), _V, -1),
    Signature("sort_by_label_desc", (_V, _S), _V, -1),
    Signature("start", (), _N),
    Signature("step", (), _N),
    Signature("time", (), _N),
    Signature("vector", (_N,), _V),
)

FUNCTIONS: dict[str, Signature] = {
    **{name: Signature(name, (_V,), _V) for name in _VECTOR_TO_VECTOR},
    **{name: Signature(name, (_M,), _V) for name in _MATRIX_TO_VECTOR},
    **{name: Signature(name, (_V,), _V, 1) for name in _TIME_PARTS},
    **{signature.name: signature for signature in _OTHERS},
}
"""Every function by name. `holt_winters` is the former name of `double_exponential_smoothing`."""
