"""A channel plugin as small as one can be that keeps the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tocsin.plugin import (
    ChannelSeed,
    ChannelType,
    Delivery,
    HttpClient,
    HttpError,
    HttpOptions,
    Receipt,
    SendError,
    TemplateSeed,
    check_url,
    hookimpl,
)

FINAL = frozenset(("build", "denied"))


class SampleChannel(ChannelType):
    """Posts the message as text; the receiver may answer 200 with the text ``no``."""

    ident = "sample"
    title = "Sample"

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse addresses that are none."""
        check_url(str(config.get("url", "")))

    def default_channels(self) -> Sequence[ChannelSeed]:
        """Return one channel."""
        return [ChannelSeed("Sample", {"url": "http://127.0.0.1:9"})]

    def default_templates(self) -> Sequence[TemplateSeed]:
        """Return one template."""
        return [TemplateSeed("Sample", {"content": "{{$event.RuleName}}"})]

    def send(self, delivery: Delivery) -> Receipt:
        """Post the message."""
        client = self.client(delivery)
        try:
            return self.judge(delivery, client, *self.post(client, delivery))
        except HttpError as error:
            raise SendError(str(error), retryable=error.kind not in FINAL) from None
        finally:
            client.close()

    def client(self, delivery: Delivery) -> HttpClient:
        """Return a client for one exchange."""
        headers = {"X-Key": delivery.config["key"]}
        return HttpClient(HttpOptions((delivery.config["url"],), timeout=delivery.timeout, headers=headers))

    def post(self, client: HttpClient, delivery: Delivery) -> tuple[int, str]:
        """Return the status of the answer and its beginning."""
        stream = client.open("POST", "", body=delivery.content["content"].encode(), limit=delivery.timeout)
        try:
            return stream.status, next(iter(stream), b"")[:200].decode("utf-8", "replace")
        finally:
            stream.close()

    def judge(self, delivery: Delivery, client: HttpClient, status: int, text: str) -> Receipt:
        """Return the receipt of a notification that was taken."""
        text = client.clean(f"HTTP {status}: {text}")
        if not 200 <= status < 300 or text.endswith(": no"):
            raise SendError(text, retryable=False)
        return Receipt(text)


@hookimpl
def tocsin_channels() -> list[ChannelType]:
    """Return the type."""
    return [SampleChannel()]
