"""One HTTP request for one delivery."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from tocsin.plugin import (
    Delivery,
    HttpClient,
    HttpError,
    HttpOptions,
    Receipt,
    RenderError,
    SendError,
    TlsOptions,
)
from tocsin_channel_webhook.clients import Clients

READ_BYTES = 512
"""How much of an answer is read and recorded."""
IN_URLS = "!#$%&'()*+,/:;=?@[]~"
TRY_AGAIN = frozenset(("connect", "timeout", "broken"))
SHORTEST_SECRET = 8
"""Shorter parameters are not hidden in answers: they would star ordinary words."""
Json = Mapping[str, Any]


def send(delivery: Delivery, http: Json, clients: Clients) -> Receipt:
    """Send the request that ``http`` describes; raise :class:`SendError` unless the answer is a success."""
    url = _url(delivery, http)
    headers = {name: _lenient(delivery, f"headers.{name}", text) for name, text in (http.get("headers") or {}).items()}
    body = _body(delivery, http, headers)
    options = _options(delivery, http, url, headers)
    try:
        status, answer = _exchange(clients.get(url, options), str(http.get("method")), url, headers, body)
    except HttpError as error:
        raise SendError(options.clean(str(error)), retryable=error.kind in TRY_AGAIN) from None
    shown = _hidden(options.clean(answer), http)
    if not 200 <= status < 300:
        raise SendError(f"failed to send request, status code: {status}, body: {shown}", retryable=False)
    return Receipt(f"status_code:{status}, response:{shown}")


def _exchange(
    client: HttpClient, method: str, url: str, headers: Mapping[str, str], body: bytes | None
) -> tuple[int, str]:
    """Return the status and the beginning of the answer.

    Once there is a status, the receiver has decided: a body that breaks off does not make a notification undelivered.
    """
    sent = {"User-Agent": "tocsin", "Accept-Encoding": "identity", **headers}
    stream = client.open(method, "", url=url, headers=sent, body=body, limit=client.options.timeout)
    answer = b""
    try:
        for piece in stream:
            answer += piece
            if len(answer) >= READ_BYTES:
                break
    except HttpError:
        answer += b" (the answer broke off)"
    finally:
        stream.close()
    return stream.status, answer[:READ_BYTES].decode("utf-8", "replace")


def _url(delivery: Delivery, http: Json) -> str:
    """Return the rendered address with the configured query parameters after its own."""
    url = delivery.render("url", str(http.get("url") or "")).strip()
    parameters = (http.get("request") or {}).get("parameters") or {}
    query = urlencode({name: _lenient(delivery, f"parameters.{name}", text) for name, text in parameters.items()})
    try:
        parts = urlsplit(quote(url, safe=IN_URLS))
    except ValueError as error:
        raise SendError(f"url: {error}", retryable=False) from None
    joined = "&".join(part for part in (parts.query, query) if part)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, joined, ""))


def _lenient(delivery: Delivery, name: str, text: str) -> str:
    """Return a rendered header or parameter; a notification with a broken one is better than none."""
    try:
        return delivery.render(name, text).strip()
    except RenderError as error:
        return "" if error.reason == "syntax" else f"failed to parse template: {error}"


def _body(delivery: Delivery, http: Json, headers: dict[str, str]) -> bytes | None:
    template = (http.get("request") or {}).get("body") or ""
    if template:
        return delivery.render("body", template, escaped=True).encode()
    if http.get("method") == "GET":
        return None
    if not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "application/json"
    return json.dumps(list(delivery.events), ensure_ascii=False, separators=(",", ":")).encode()


def _options(delivery: Delivery, http: Json, url: str, headers: Mapping[str, str]) -> HttpOptions:
    """Return what the connection needs; an address or header that cannot be used is an error of this send."""
    try:
        return HttpOptions(
            (url,),
            timeout=delivery.timeout,
            headers=headers,
            tls=TlsOptions(verify=not (http.get("tls") or {}).get("skip_verify")),
            denied=delivery.denied_networks,
            proxy=str(http.get("proxy") or ""),
        )
    except ValueError as error:
        raise SendError(str(error), retryable=False) from None


def _hidden(text: str, http: Json) -> str:
    """Return an answer without the constant query parameters that the receiver may repeat in it: they may be keys."""
    parameters = ((http.get("request") or {}).get("parameters") or {}).values()
    for value in sorted((v for v in parameters if "{{" not in v and len(v) >= SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(value, "***")
    return text
