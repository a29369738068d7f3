"""What the callback channel puts on the wire, and its way through the whole service."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from typing import Any

import pytest

import tocsin_channel_webhook
from tocsin.plugin import Delivery, HttpOptions, RenderError, SendError
from tocsin.plugin.testkit import AppFactory, TestApp, dat, err
from tocsin.plugin.testkit.alerts import Alerts
from tocsin.plugin.testkit.components import Answer, Hang, HttpSink, Request, Reset, wait_until
from tocsin_channel_webhook.channel import CallbackChannel
from tocsin_channel_webhook.clients import Clients

EVENT = {"id": 7, "rule_name": "CPU", "tags_map": {"a": "ü"}}


def render(name: str, text: str, *, escaped: bool = False) -> str:
    """Stand in for the service's templates: ``{{…}}`` becomes a word, ``{{parse}}`` and ``{{exec}}`` fail."""
    for word, reason in (("{{parse}}", "syntax"), ("{{exec}}", "execution")):
        if word in text:
            raise RenderError(f"{name}: it is broken", reason=reason)
    return text.replace("{{word}}", "<w>" if not escaped else "&lt;w&gt;")


def delivery(http: Mapping[str, Any], **more: Any) -> Delivery:
    config = {"http_request_config": {"method": "POST", **http}}
    return Delivery(config, {}, {"content": "x"}, [EVENT], render, **more)


@pytest.fixture
def channel() -> CallbackChannel:
    return CallbackChannel()


def sent(channel: CallbackChannel, http_sink: HttpSink, **http: Any) -> Request:
    channel.send(delivery({"url": http_sink.url, **http}))
    return http_sink.requests[-1]


def test_without_a_body_the_events_are_sent(channel: CallbackChannel, http_sink: HttpSink) -> None:
    request = sent(channel, http_sink)
    assert json.loads(request.body) == [EVENT]
    assert (request.method, request.headers["content-type"]) == ("POST", "application/json")
    request = sent(channel, http_sink, method="GET", request=None)
    assert (request.method, request.body) == ("GET", b"")
    request = sent(channel, http_sink, method="PUT", headers={"content-type": "text/x"})
    assert (request.method, request.headers["content-type"]) == ("PUT", "text/x")


def test_every_text_is_a_template_and_only_the_body_is_escaped(channel: CallbackChannel, http_sink: HttpSink) -> None:
    request = sent(
        channel,
        http_sink,
        url=f"{http_sink.url}/p/{{{{word}}}}?a=1",
        headers={"X-Word": "{{word}}"},
        request={"parameters": {"b": "{{word}}&c", "plain": "1"}, "body": "{{word}} ü"},
    )
    assert request.path == "/p/%3Cw%3E"
    assert request.query == {"a": ["1"], "b": ["<w>&c"], "plain": ["1"]}
    assert request.headers["x-word"] == "<w>"
    assert request.body == "&lt;w&gt; ü".encode()


def test_a_broken_header_or_parameter_does_not_keep_the_message_back(
    channel: CallbackChannel, http_sink: HttpSink
) -> None:
    request = sent(
        channel, http_sink, headers={"X-A": "{{parse}}", "X-B": "{{exec}}"}, request={"parameters": {"p": "{{exec}}"}}
    )
    assert request.headers["x-a"] == ""
    assert request.headers["x-b"] == "failed to parse template: headers.X-B: it is broken"
    assert request.query["p"] == ["failed to parse template: parameters.p: it is broken"]


@pytest.mark.parametrize("http", [{"url": "{{parse}}"}, {"request": {"body": "{{exec}}"}}])
def test_a_broken_address_or_body_does(channel: CallbackChannel, http_sink: HttpSink, http: dict[str, Any]) -> None:
    with pytest.raises(SendError, match="it is broken") as caught:
        channel.send(delivery({"url": http_sink.url, **http}))
    assert not caught.value.retryable
    assert not http_sink.requests


@pytest.mark.parametrize(
    ("http", "message"),
    [
        ({"url": "ftp://h/"}, "url must start with http or https"),
        ({"url": "file:///etc/passwd"}, "url must start with http or https"),
        ({"url": "http://"}, "expected an address like"),
        ({"url": "http://[::1"}, "url: "),
        ({"url": "http://h", "headers": {"X": "a\r\nY: b"}}, "the value of X cannot be sent"),
        ({"url": "http://h", "headers": {"a b": "c"}}, "is not a header name"),
        ({"url": "http://169.254.169.254/latest"}, "are not allowed"),
        ({"url": "http://h", "proxy": "socks5://p"}, "proxy must start with http or https"),
    ],
)
def test_what_must_not_be_sent_is_not(channel: CallbackChannel, http: dict[str, Any], message: str) -> None:
    networks = (ipaddress.ip_network("169.254.0.0/16"),)
    with pytest.raises(SendError, match=message) as caught:
        channel.send(delivery(http, denied_networks=networks))
    assert not caught.value.retryable


def test_a_proxy_is_used(channel: CallbackChannel, http_sink: HttpSink) -> None:
    channel.send(delivery({"url": "http://receiver.invalid/x?a=1", "proxy": http_sink.url}))
    request = http_sink.requests[0]
    assert request.headers["host"] == "receiver.invalid"
    assert request.path == "/x" or request.path.endswith("receiver.invalid/x")


def test_a_delivered_message_stays_delivered_when_the_answer_breaks_off(
    channel: CallbackChannel, http_sink: HttpSink
) -> None:
    http_sink.default = Reset(after=10)
    receipt = channel.send(delivery({"url": http_sink.url}))
    assert receipt.response.startswith("status_code:200, response:")
    assert "broke off" in receipt.response


def test_connections_are_shared_and_not_hoarded(channel: CallbackChannel, http_sink: HttpSink) -> None:
    clients = Clients(limit=2)
    first = clients.get(f"{http_sink.url}/a", HttpOptions((http_sink.url,)))
    assert clients.get(f"{http_sink.url}/b", HttpOptions((http_sink.url,), headers={"A": "b"})) is first
    for name in ("x", "y", "z"):
        clients.get(f"http://{name}.invalid/", HttpOptions((f"http://{name}.invalid/",)))
    assert len(clients) == 2
    assert clients.get(f"{http_sink.url}/a", HttpOptions((http_sink.url,))) is not first


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "http request config cannot be nil"),
        ({"http_request_config": {"method": "POST"}}, "http request url cannot be empty"),
        (
            {"http_request_config": {"url": "http://h", "method": "DELETE"}},
            "http request method must be GET, POST or PUT",
        ),
        ({"http_request_config": {"url": "gopher://h", "method": "GET"}}, "http request url must start with http"),
        (
            {"http_request_config": {"url": "http://h", "method": "GET", "timeout": "1"}},
            "timeout: got a text, expected an integer",
        ),
        (
            {"http_request_config": {"url": "http://h", "method": "GET", "headers": {"a": 1}}},
            "headers.a.value: got ",
        ),
        (
            {"http_request_config": {"url": "http://h", "method": "GET", "request": {"body": 1}}},
            "request.body: got ",
        ),
    ],
)
def test_channels_that_cannot_work_are_not_saved(make_app: AppFactory, config: dict[str, Any], message: str) -> None:
    app = make_app(plugins=[tocsin_channel_webhook])
    body = {"name": "N", "ident": "anything", "request_type": "http", "request_config": config}
    assert message in err(app.root.post("/api/svc/notify-channel-configs", [body]))


@pytest.mark.parametrize(
    ("http", "expected"),
    [
        ({}, (10.0, 3, 0.1, 5, True)),
        ({"timeout": 0, "retry_times": 0}, (10.0, 3, 0.1, 5, True)),
        (
            {
                "timeout": 500,
                "retry_times": 1,
                "retry_interval": 50,
                "concurrency": 2,
                "request": {"body": "{{$sendtos}}"},
            },
            (0.5, 1, 0.05, 2, False),
        ),
    ],
)
def test_the_plan_is_the_configurations(
    channel: CallbackChannel, http: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    plan = channel.plan({"http_request_config": http})
    assert (plan.timeout, plan.attempts, plan.interval, plan.concurrency, plan.per_target) == expected


# --- through the whole service


class Service:
    """A center that sends, with the means to let things happen."""

    def __init__(self, app: TestApp) -> None:
        self.app = app
        self.alerts = Alerts(app.core)

    def channel(self, name: str, url: str, **http: Any) -> int:
        config = {"url": url, "method": "POST", "headers": {"Content-Type": "application/json"}, **http}
        body = {"name": name, "ident": "chat", "enable": True, "request_type": "http"}
        body["request_config"] = {"http_request_config": config}
        return int(dat(self.app.root.post("/api/svc/notify-channel-configs", [body]))[0])

    def rule(self, *channels: int, **route: Any) -> int:
        template = {
            "name": "T",
            "content": {"content": "{{$event.RuleName}}\n{{$value}}"},
            "notify_channel_ident": "chat",
        }
        number = dat(self.app.root.post("/api/svc/message-templates", [template]))[0]
        configs = [{"channel_id": channel, "template_id": number, **route} for channel in channels]
        body = {"name": "R", "enable": True, "notify_configs": configs}
        return int(dat(self.app.root.post("/api/svc/notify-rules", [body]))[0]["id"])

    def fire(self, rule: int, key: str = "h") -> dict[str, Any]:
        fields: dict[str, Any] = {"hash": key, "rule_name": 'CPU "busy"', "trigger_value": "81.5", "severity": 1}
        return self.alerts.fire(**fields, notify_rule_ids=[rule], notify_recovered=1)

    def statuses(self, event: dict[str, Any]) -> dict[str, int]:
        found = dat(self.app.root.get(f"/api/svc/event-notify-records/{event['id']}"))["notifies"]
        return {channel: records[0]["status"] for channel, records in found.items()}


@pytest.fixture
def service(make_app: AppFactory) -> Service:
    return Service(make_app(plugins=[tocsin_channel_webhook], start="engine"))


def test_an_alert_and_its_recovery_arrive(service: Service, http_sink: HttpSink) -> None:
    body = '{"text":"{{$tpl.content}}","state":"{{if $event.IsRecovered}}over{{else}}on{{end}}"}'
    event = service.fire(service.rule(service.channel("Chat", f"{http_sink.url}/hook", request={"body": body})))
    first = http_sink.wait_for(1)[0]
    assert (first.method, first.path) == ("POST", "/hook")
    assert json.loads(first.body) == {"text": "CPU &#34;busy&#34;\n81.5", "state": "on"}
    service.alerts.recover(event)
    assert json.loads(http_sink.wait_for(2)[1].body)["state"] == "over"


def test_the_channel_that_comes_along_posts_the_event(service: Service, http_sink: HttpSink) -> None:
    (callback,) = dat(service.app.root.get("/api/svc/notify-channel-configs"))
    assert (callback["name"], callback["ident"], callback["enable"]) == ("Callback", "callback", True)
    event = service.fire(service.rule(callback["id"], params={"callback_url": f"{http_sink.url}/cb?a=1&b=2"}))
    request = http_sink.wait_for(1)[0]
    (posted,) = json.loads(request.body)
    assert request.query == {"a": ["1"], "b": ["2"]}
    assert posted["id"] == event["id"]
    assert posted["rule_name"] == 'CPU "busy"'
    assert posted["notify_rule_name"] == "R"


def test_a_receiver_that_hangs_delays_no_other(service: Service, http_sink: HttpSink) -> None:
    with HttpSink(Hang()) as stuck:
        slow = service.channel("Slow", stuck.url, timeout=3000, retry_times=1, concurrency=1)
        rule = service.rule(slow, service.channel("Quick", http_sink.url))
        events = [service.fire(rule, f"h{number}") for number in range(8)]
        http_sink.wait_for(8)
        assert len(stuck.requests) < 8
        wait_until(lambda: service.statuses(events[0]) == {"Slow": 2, "Quick": 1}, what="the records")


def test_a_receiver_that_comes_back_gets_its_message(service: Service, http_sink: HttpSink) -> None:
    http_sink.then(Reset(), Reset(), Answer(204))
    event = service.fire(service.rule(service.channel("Chat", http_sink.url, retry_interval=10)))
    http_sink.wait_for(3)
    wait_until(lambda: service.statuses(event) == {"Chat": 1}, what="the records")


def test_what_a_stopped_service_did_not_send_is_sent_after_the_restart(
    make_app: AppFactory, http_sink: HttpSink
) -> None:
    app = make_app(plugins=[tocsin_channel_webhook])
    before = Service(app)
    before.fire(before.rule(before.channel("Chat", http_sink.url)))
    make_app(plugins=[tocsin_channel_webhook], start="engine")
    assert len(http_sink.wait_for(1)) == 1
