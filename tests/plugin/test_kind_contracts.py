"""The contracts of small kinds catch what they are there for: one deliberately broken plugin per clause."""

import argparse
import threading
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import cramjam
import peewee
import pytest
from marshmallow import Schema, ValidationError, fields

from tocsin.app.registry import PluginInfo, Plugins
from tocsin.plugin import (
    ANONYMOUS,
    ApiCall,
    Command,
    Decoded,
    EventProcessor,
    Feature,
    IngestProtocol,
    IngestRequest,
    IngestRoute,
    Job,
    LoginError,
    Migration,
    ProcessorError,
    Raw,
    Sidecar,
    SsoIdentity,
    SsoProvider,
    StepContext,
    Table,
    Tool,
    Toolset,
    create,
    encode_labels,
    encode_series,
    hookimpl,
    page,
    snappy,
)
from tocsin.plugin.testkit import AppFactory
from tocsin.plugin.testkit.feature import CommandContract, FeatureContract, SidecarContract
from tocsin.plugin.testkit.ingest import IngestContract
from tocsin.plugin.testkit.processor import ProcessorContract, SsoContract
from tocsin.plugin.testkit.toolset import ToolsetContract

FAILURES = (AssertionError, pytest.fail.Exception)


def supplying(contract: type[Any], hook: str, descriptor: Any) -> Any:
    """Return an instance of a contract whose plugin supplies ``descriptor``."""
    module = SimpleNamespace(**{hook: hookimpl(lambda: [descriptor])})

    def descriptors(_: Any) -> Plugins:
        loaded = Plugins()
        loaded.add(PluginInfo("sample"), module)
        assert loaded.infos[0].healthy, loaded.infos[0].error
        return loaded

    def app(_: Any, make_app: AppFactory, **options: Any) -> Any:
        return make_app(plugins=[module], **options)

    return type("Sample", (contract,), {"plugin": "sample", "descriptors": descriptors, "app": app})()


def outcomes(contract: Any, *arguments: Any, skip: Sequence[str] = ()) -> set[str]:
    """Run every clause of a contract that needs no fixture and return the names of those that failed."""
    failed = set()
    for name in dir(contract):
        clause = getattr(contract, name)
        general = name in vars(__import__("tocsin.plugin.testkit.contract", fromlist=["x"]).PluginContract)
        if not name.startswith("test_") or general or name in skip:
            continue
        wanted = clause.__code__.co_varnames[1 : clause.__code__.co_argcount]
        try:
            clause(*arguments[: len(wanted)])
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception):
            failed.add(name)
    return failed


# Ingest protocols


def sample_series() -> bytes:
    labels = encode_labels([(b"__name__", b"up")])
    return bytes(encode_series(labels, [1], [1.0]))


def good_decode(request: IngestRequest) -> Decoded:
    return Decoded(snappy(request.body, request.max_decoded))


def crash_on_short(request: IngestRequest) -> Decoded:
    if len(request.body) < 5:
        raise IndexError("oops")
    return good_decode(request)


def swallow(request: IngestRequest) -> Decoded:
    try:
        return good_decode(request)
    except ValueError:
        return Decoded(b"")


class Protocol(IngestProtocol):
    name = "sample"

    def __init__(self, decode: Callable[[IngestRequest], Decoded] | None = good_decode, **more: Any) -> None:
        self._routes = [IngestRoute("/sample", lambda *_: Raw(b""), decode, **more)]

    def routes(self) -> Sequence[IngestRoute]:
        return self._routes


class SampleIngest(IngestContract):
    def valid(self) -> Mapping[str, IngestRequest]:
        body = bytes(cramjam.snappy.compress_raw(sample_series()))
        return {"one series": IngestRequest("/sample", {}, {}, body, "127.0.0.1", 0)}

    def refused(self) -> Mapping[str, IngestRequest]:
        return {"noise": IngestRequest("/sample", {}, {}, b"\xff\xff\xff", "127.0.0.1", 0)}

    def bomb(self) -> IngestRequest | None:
        body = bytes(cramjam.snappy.compress_raw(b"\0" * (2 << 20)))
        return IngestRequest("/sample", {}, {}, body, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("protocol", "clause"),
    [
        (Protocol(), None),
        (Protocol(lambda request: Decoded(b"")), "test_valid_requests_become_series"),
        (Protocol(swallow), "test_invalid_requests_are_refused_whole"),
        (Protocol(swallow), "test_a_decompression_bomb_is_refused"),
        (Protocol(crash_on_short), "test_a_body_cut_anywhere_is_decoded_or_refused"),
        (Protocol(None), "test_its_routes_are_well_formed"),
        (Protocol(auth="magic"), "test_its_routes_are_well_formed"),
        (Protocol(method="BREW"), "test_its_routes_are_well_formed"),
    ],
)
def test_ingest_contract(protocol: Protocol, clause: str | None) -> None:
    contract = supplying(SampleIngest, "tocsin_ingest_protocols", protocol)
    failed = outcomes(contract, skip=["test_the_gateway_serves_it"])
    assert (clause in failed) if clause else not failed


# Toolsets


GOOD = {
    "name": "get_thing",
    "title": "Get Thing",
    "description": "Returns one thing by its id.",
    "call": lambda arguments: ApiCall("GET", f"/thing/{arguments['id']}"),
    "input_schema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}},
}


def mutating(arguments: Any) -> ApiCall:
    arguments["extra"] = 1
    return ApiCall("GET", "/thing")


class SampleToolset(ToolsetContract):
    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        return {"get_thing": {"id": 3}}


@pytest.mark.parametrize(
    ("changes", "clause"),
    [
        ({}, None),
        ({"name": "Get-Thing"}, "test_tools_are_described"),
        ({"title": " "}, "test_tools_are_described"),
        ({"description": "thing"}, "test_tools_are_described"),
        ({"input_schema": {"type": "array"}}, "test_schemas_are_json_schemas_of_objects"),
        ({"input_schema": {"type": "object", "required": ["x"]}}, "test_schemas_are_json_schemas_of_objects"),
        ({"input_schema": {"type": "object", "properties": {"x": {}}}}, "test_schemas_are_json_schemas_of_objects"),
        ({"name": "other"}, "test_there_are_arguments_for_every_tool"),
        ({"call": lambda a: ApiCall("GET", "/api/svc/thing")}, "test_calls_go_to_the_page_api"),
        ({"call": lambda a: ApiCall("DELETE", "/thing")}, "test_calls_go_to_the_page_api"),
        ({"call": lambda a: "GET /thing"}, "test_calls_go_to_the_page_api"),
        ({"call": mutating}, "test_arguments_are_read_only"),
        ({"call": lambda a: ApiCall("GET", f"/{1 // (len(a) - 1)}")}, "test_missing_arguments_do_not_crash"),
    ],
)
def test_toolset_contract(changes: dict[str, Any], clause: str | None) -> None:
    class Set(Toolset):
        name = "sample"

        def tools(self) -> Sequence[Tool]:
            return [Tool(**{**GOOD, **changes})]

    contract = supplying(SampleToolset, "tocsin_toolsets", Set())
    if clause is None:
        assert outcomes(contract) == set()
        return
    with pytest.raises((*FAILURES, KeyError, ZeroDivisionError)):
        getattr(contract, clause)()


# Features


class Thing(Table):
    name = peewee.CharField(10)

    class Meta:
        table_name = "contract_thing"


def half_table(migrator: Any) -> None:
    migrator.database.peewee.execute_sql("CREATE TABLE contract_thing (id INTEGER PRIMARY KEY)")


def feature(**attributes: Any) -> Feature:
    made: Feature = type("SampleFeature", (Feature,), {"name": "sample", **attributes})()
    return made


def seed_more(self: Any, core: Any) -> None:
    Thing.create(name="again")


def start_thread(self: Any, core: Any, role: str) -> None:
    self.event = threading.Event()
    self.thread = threading.Thread(target=self.event.wait, name="forgotten")
    self.thread.start()


@pytest.mark.parametrize(
    ("attributes", "clause"),
    [
        ({"tables": (Thing,), "migrations": (create(Thing),)}, None),
        ({"processes": frozenset()}, "test_it_runs_where_processes_are"),
        ({"processes": frozenset(("centre",))}, "test_it_runs_where_processes_are"),
        ({"migrations": (Migration(2, "second", lambda m: None),)}, "test_migrations_are_numbered_from_one"),
        ({"tables": (Thing,)}, "test_migrations_are_numbered_from_one"),
        (
            {"tables": (Thing,), "migrations": (Migration(1, "half", half_table),)},
            "test_migrated_tables_are_what_the_models_say",
        ),
        (
            {"tables": (Thing,), "migrations": (create(Thing),), "seed": seed_more},
            "test_seeding_twice_is_seeding_once",
        ),
        (
            {"routes": lambda self, core: [page.get("/open", lambda c: None, ANONYMOUS)]},
            "test_every_route_says_who_may_call",
        ),
        ({"jobs": (Job("never", lambda core: None),)}, "test_jobs_say_when"),
    ],
)
def test_feature_contract(make_app: AppFactory, attributes: dict[str, Any], clause: str | None) -> None:
    contract = supplying(FeatureContract, "tocsin_features", feature(**attributes))
    failed = outcomes(contract, make_app, skip=["test_it_starts_and_stops"])
    assert (clause in failed) if clause else not failed, failed


@pytest.mark.parametrize("role", ["http", "engine"])
def test_feature_contract_finds_forgotten_threads(make_app: AppFactory, role: str) -> None:
    healthy = supplying(FeatureContract, "tocsin_features", feature())
    healthy.test_it_starts_and_stops(make_app, role)
    leaking = feature(start=start_thread)
    with pytest.raises(FAILURES, match="forgotten"):
        supplying(FeatureContract, "tocsin_features", leaking).test_it_starts_and_stops(make_app, role)
    leaking.event.set()  # type: ignore[attr-defined]
    leaking.thread.join()  # type: ignore[attr-defined]


# Commands and sidecars


class SampleCommand(Command):
    name = "sample"
    help = "do the sample"

    def run(self, arguments: argparse.Namespace, open_core: Callable[[], Any]) -> int:
        return 0


class Silent(SampleCommand):
    help = ""


class Greedy(SampleCommand):
    def configure(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("-c", "--count")


def test_command_contract() -> None:
    assert outcomes(supplying(CommandContract, "tocsin_commands", SampleCommand())) == set()
    assert outcomes(supplying(CommandContract, "tocsin_commands", Silent())) == {"test_it_is_explained"}
    with pytest.raises(argparse.ArgumentError):
        supplying(CommandContract, "tocsin_commands", Greedy()).test_its_arguments_fit_the_command_line()


class SampleSidecar(Sidecar):
    name = "sample"

    def run(self, core: Any, stopping: threading.Event, ready: Callable[[], None]) -> None:
        ready()
        stopping.wait()


class Early(SampleSidecar):
    def run(self, core: Any, stopping: threading.Event, ready: Callable[[], None]) -> None:
        ready()


class Crashing(SampleSidecar):
    def run(self, core: Any, stopping: threading.Event, ready: Callable[[], None]) -> None:
        ready()
        stopping.wait()
        raise RuntimeError("at the end")


class Reluctant(SampleSidecar):
    def enabled(self, core: Any) -> bool:
        return False


@pytest.mark.parametrize(
    ("sidecar", "text"),
    [(SampleSidecar(), None), (Early(), "ended by itself"), (Crashing(), "at the end"), (Reluctant(), "not enabled")],
)
def test_sidecar_contract(make_app: AppFactory, sidecar: Sidecar, text: str | None) -> None:
    contract = supplying(SidecarContract, "tocsin_sidecars", sidecar)
    if text is None:
        contract.test_it_serves_until_told_to_stop(make_app)
        return
    with pytest.raises(FAILURES, match=text):
        contract.test_it_serves_until_told_to_stop(make_app)


# Event processors and login providers


class Uppercase(EventProcessor):
    name = "uppercase"

    def config_schema(self) -> type[Schema]:
        return Schema.from_dict({"field": fields.String(required=True)})

    def process(
        self, event: dict[str, Any], config: Mapping[str, Any], context: StepContext
    ) -> tuple[dict[str, Any] | None, str]:
        field = config.get("field")
        if not isinstance(field, str) or not isinstance(event.get(field), str):
            raise ProcessorError(f"field: got {field!r}, expected the name of a text field")
        return {**event, field: event[field].upper()}, f"{field} changed"


class Forgetful(Uppercase):
    def process(self, event: dict[str, Any], config: Any, context: StepContext) -> Any:
        return super().process(event, config, context)[0]


class Greedier(Uppercase):
    def process(self, event: dict[str, Any], config: Any, context: StepContext) -> Any:
        config["seen"] = True
        return event, ""


class Careless(Uppercase):
    def process(self, event: dict[str, Any], config: Any, context: StepContext) -> Any:
        return {**event, config["field"]: event[config["field"]].upper()}, ""


class Strict(Uppercase):
    def config_schema(self) -> type[Schema]:
        return Schema.from_dict({"other": fields.String(required=True)})


class SampleProcessor(ProcessorContract):
    def config(self) -> Mapping[str, Any]:
        return {"field": "rule_name"}


@pytest.mark.parametrize(
    ("processor", "clause"),
    [
        (Uppercase(), None),
        (Forgetful(), "test_it_goes_on_with_an_event_or_drops_it"),
        (Greedier(), "test_its_configuration_is_read_only"),
        (Careless(), "test_a_broken_configuration_is_its_own_error"),
        (Strict(), "test_its_schema_takes_the_configuration"),
    ],
)
def test_processor_contract(processor: EventProcessor, clause: str | None) -> None:
    contract = supplying(SampleProcessor, "tocsin_event_processors", processor)
    if clause is None:
        assert outcomes(contract) == set()
        return
    with pytest.raises((*FAILURES, ValidationError)):
        getattr(contract, clause)()


class Redirecting(SsoProvider):
    name = "sample"

    def settings_schema(self) -> type[Schema]:
        return Schema.from_dict({"url": fields.Url(require_tld=False)})

    def login_url(self, settings: Mapping[str, Any], state: str, callback_url: str) -> str:
        return f"{settings['url']}?state={state}"

    def callback(self, settings: Mapping[str, Any], query: Mapping[str, str], callback_url: str) -> SsoIdentity:
        if "code" not in query:
            raise LoginError("no code")
        return SsoIdentity(query["code"])


class Stateless(Redirecting):
    def login_url(self, settings: Mapping[str, Any], state: str, callback_url: str) -> str:
        return str(settings["url"])


class Trusting(Redirecting):
    def callback(self, settings: Mapping[str, Any], query: Mapping[str, str], callback_url: str) -> SsoIdentity:
        return SsoIdentity(query.get("code", "anybody"))


class Doorless(SsoProvider):
    name = "sample"

    def settings_schema(self) -> type[Schema]:
        return Schema.from_dict({"url": fields.Url(require_tld=False)})


class SampleSso(SsoContract):
    def provider_settings(self) -> Mapping[str, Any]:
        return {"url": "http://127.0.0.1/login"}


@pytest.mark.parametrize(
    ("provider", "clause"),
    [
        (Redirecting(), None),
        (Stateless(), "test_the_login_address_is_an_address"),
        (Trusting(), "test_a_refused_callback_is_a_login_error"),
        (Doorless(), "test_it_redirects_or_takes_passwords"),
    ],
)
def test_sso_contract(provider: SsoProvider, clause: str | None) -> None:
    contract = supplying(SampleSso, "tocsin_sso_providers", provider)
    if clause is None:
        assert outcomes(contract) == set()
        return
    with pytest.raises(FAILURES):
        getattr(contract, clause)()
