"""The writer type keeps its contract."""

from collections.abc import Mapping
from typing import Any

import cramjam

from tocsin.plugin.testkit.components import Request
from tocsin.plugin.testkit.contract import SECRET
from tocsin.plugin.testkit.writer import WriterContract


class TestRemoteWrite(WriterContract):
    plugin = "tocsin_writer_remotewrite"

    def element(self, url: str, secret: str = SECRET) -> Mapping[str, Any]:
        return {
            "Url": url,
            "BasicAuthUser": "reader",
            "BasicAuthPass": secret,
            "Headers": ["X-Api-Key", secret],
            "Timeout": int(self.limit * 1000),
        }

    def received(self, request: Request) -> bytes:
        assert request.headers["content-encoding"] == "snappy"
        return bytes(cramjam.snappy.decompress_raw(request.body))
