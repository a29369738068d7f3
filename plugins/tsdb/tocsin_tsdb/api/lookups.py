"""`series`, `labels`, `label/<name>/values`, `metadata`."""

from __future__ import annotations

import re

import falcon
import orjson

from tocsin_tsdb.api.failure import bad_data
from tocsin_tsdb.api.params import Parameters
from tocsin_tsdb.api.service import Service, answer, answer_list, client_left

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_ESCAPED = "U__"
_ESCAPE = re.compile(r"__|_([0-9a-fA-F]{1,6})_|_")


class SeriesResource:
    """Label sets of matching series."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with the label sets, sorted."""
        params = Parameters(req)
        selectors, (start, end), limit = params.selectors(), params.span(), params.limit()
        if not selectors:
            raise bad_data("no match[] parameter provided")
        service = self._service
        with service.slot(service.lookups, "query", client_left(req)):
            found = service.store.series(selectors, start, end)
        answer_list(resp, [dict(labels) for labels in found], limit)

    on_post = on_get


class LabelsResource:
    """Label names."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with the sorted names."""
        params = Parameters(req)
        selectors, (start, end), limit = params.selectors(), params.span(), params.limit()
        service = self._service
        with service.slot(service.lookups, "query", client_left(req)):
            found = service.store.label_names(selectors, start, end)
        answer_list(resp, found, limit)

    on_post = on_get


class LabelValuesResource:
    """Values of one label."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Answer with the sorted values."""
        if not _LABEL_NAME.fullmatch(name):
            raise bad_data(f"invalid label name: {name}")
        params = Parameters(req)
        selectors, (start, end), limit = params.selectors(), params.span(), params.limit()
        service = self._service
        with service.slot(service.lookups, "query", client_left(req)):
            found = service.store.label_values(unescape(name), selectors, start, end)
        answer_list(resp, found, limit)


def unescape(name: str) -> str:
    """Undo the escaping that clients use for label names beyond ASCII letters (`U__` and hexadecimal code points)."""
    if not name.startswith(_ESCAPED):
        return name
    try:
        return _ESCAPE.sub(_unescaped, name[len(_ESCAPED) :])
    except (ValueError, OverflowError):
        return name


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    if match[0] == "__":
        return "_"
    raise ValueError("stray underscore")


class MetadataResource:
    """What senders said about metric families."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with family -> descriptions; `metric`, `limit` and `limit_per_metric` narrow it."""
        params = Parameters(req)
        metric, limit, per_metric = (
            params.text("metric"),
            params.number("limit", -1),
            params.number("limit_per_metric", -1),
        )
        out: dict[str, list[dict[str, str]]] = {}
        for family, entries in self._service.store.families().items():
            if metric and family != metric:
                continue
            if 0 <= limit <= len(out):
                break
            kept = entries[:per_metric] if per_metric > 0 else entries
            out[family] = [{"type": each.type, "help": each.help, "unit": each.unit} for each in kept]
        answer(resp, orjson.dumps(out))
