"""The admin endpoints, there only when they are switched on."""

from __future__ import annotations

import falcon
import orjson

from tocsin_tsdb.api.failure import Failure, bad_data, invalid_parameter
from tocsin_tsdb.api.params import Parameters
from tocsin_tsdb.api.service import Service, answer, client_left


class AdminResource:
    """`admin/tsdb/<what>`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def _require(self) -> None:
        if not self._service.options.enable_admin:
            raise Failure(404, "unavailable", "admin APIs disabled")

    def on_post_delete_series(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Mark the samples of matching series as deleted."""
        self._require()
        params = Parameters(req)
        selectors, (start, end) = params.selectors(), params.span()
        if not selectors:
            raise bad_data("no match[] parameter provided")
        service = self._service
        with service.slot(service.lookups, "query", client_left(req)):
            try:
                service.maintenance.delete_series(selectors, start, end)
            except OSError as error:
                raise Failure(500, "internal", str(error)) from error
        resp.status = falcon.HTTP_204

    on_put_delete_series = on_post_delete_series

    def on_post_clean_tombstones(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Free the space of deleted samples."""
        self._require()
        try:
            self._service.maintenance.clean_tombstones()
        except OSError as error:
            raise Failure(500, "internal", str(error)) from error
        resp.status = falcon.HTTP_204

    on_put_clean_tombstones = on_post_clean_tombstones

    def on_post_snapshot(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Link the blocks into a snapshot directory and name it."""
        self._require()
        skip_head = Parameters(req).text("skip_head")
        if skip_head not in ("", "true", "false", "1", "0"):
            raise invalid_parameter("skip_head", f'cannot parse "{skip_head}" to a truth value')
        try:
            name = self._service.maintenance.snapshot(with_head=skip_head not in ("true", "1"))
        except OSError as error:
            raise Failure(500, "internal", str(error)) from error
        answer(resp, orjson.dumps({"name": name}))

    on_put_snapshot = on_post_snapshot
