"""The callback channel keeps the contract of channels."""

from typing import Any

from tocsin.plugin.testkit.channel import ChannelContract
from tocsin.plugin.testkit.contract import SECRET


class TestCallback(ChannelContract):
    plugin = "tocsin_channel_webhook"
    fields = ("content",)

    def request_config(self, url: str, secret: str = SECRET) -> dict[str, Any]:
        address = url.replace("://", f"://user:{secret}@") if url else url
        return {
            "http_request_config": {
                "url": address,
                "method": "POST",
                "headers": {"X-Api-Key": secret, "X-Auth": f"Bearer {secret}"},
                "request": {"parameters": {"key": secret}, "body": '{"text":"{{$tpl.content}}"}'},
            }
        }


class TestPlainEvents(ChannelContract):
    """Without a body of its own the events are sent."""

    plugin = "tocsin_channel_webhook"
    fields = ()

    def request_config(self, url: str, secret: str = SECRET) -> dict[str, Any]:
        return {"http_request_config": {"url": url, "method": "PUT", "headers": {"Authorization": f"Token {secret}"}}}
