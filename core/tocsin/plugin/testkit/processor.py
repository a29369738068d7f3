"""The contracts of event processors and login providers: subclass the one of your kind in your plugin's tests."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

import orjson
import pytest

from tocsin.plugin import EventProcessor, LoginError, ProcessorError, SsoProvider, StepContext
from tocsin.plugin.testkit.contract import PluginContract

EVENT: dict[str, Any] = {
    "id": 1,
    "rule_id": 7,
    "rule_name": "disk is filling up",
    "severity": 2,
    "is_recovered": False,
    "tags": ["ident=web-1", "device=sda"],
    "tags_map": {"ident": "web-1", "device": "sda"},
    "annotations": {"runbook": "http://127.0.0.1/runbook"},
    "trigger_time": 1_700_000_000,
    "trigger_value": "97",
    "group_id": 1,
}
"""An event as pipelines see it, with the fields that every event has."""


class ProcessorContract(PluginContract, ABC):
    """What a pipeline step promises."""

    processor_name: ClassVar[str] = ""

    @abstractmethod
    def config(self) -> Mapping[str, Any]:
        """Return a configuration that works without a network."""

    @property
    def processor(self) -> EventProcessor:
        """The processor under test."""
        return self.supplied(EventProcessor, self.processor_name)

    def test_it_goes_on_with_an_event_or_drops_it(self) -> None:
        """The result is the event to go on with or nothing, and a line for the execution record."""
        result = self.processor.process(copy.deepcopy(EVENT), self.config(), StepContext())
        assert isinstance(result, tuple), f"process() returned {type(result).__name__}"
        event, line = result
        assert event is None or isinstance(event, dict)
        assert isinstance(line, str)
        orjson.dumps(event)

    def test_its_configuration_is_read_only(self) -> None:
        """One configuration serves every event."""
        config = copy.deepcopy(dict(self.config()))
        before = orjson.dumps(config, option=orjson.OPT_SORT_KEYS)
        self.processor.process(copy.deepcopy(EVENT), config, StepContext())
        assert orjson.dumps(config, option=orjson.OPT_SORT_KEYS) == before, "process() changes its configuration"

    def test_a_broken_configuration_is_its_own_error(self) -> None:
        """Whatever is stored, a step fails with the error of steps, not with a crash."""
        for config in ({}, dict.fromkeys(self.config()), {key: [1] for key in self.config()}):
            try:
                self.processor.process(copy.deepcopy(EVENT), config, StepContext())
            except ProcessorError as error:
                if not str(error).strip():
                    pytest.fail(f"{config}: the error has no text")
            except Exception as error:
                pytest.fail(f"{config}: {type(error).__name__}: {error}")

    def test_its_schema_takes_the_configuration(self) -> None:
        """What works can be saved."""
        schema = self.processor.config_schema()
        if schema is not None:
            schema().load(dict(self.config()))


class SsoContract(PluginContract, ABC):
    """What a login provider promises."""

    provider_name: ClassVar[str] = ""

    @abstractmethod
    def provider_settings(self) -> Mapping[str, Any]:
        """Return settings that pass the provider's schema; nothing needs to answer at their addresses."""

    @property
    def provider(self) -> SsoProvider:
        """The provider under test."""
        return self.supplied(SsoProvider, self.provider_name)

    def test_its_schema_takes_the_settings(self) -> None:
        """What works can be saved."""
        self.provider.settings_schema()().load(dict(self.provider_settings()))

    def test_it_redirects_or_takes_passwords(self) -> None:
        """A provider that does neither cannot log anybody in."""
        kind = type(self.provider)
        redirects = kind.login_url is not SsoProvider.login_url and kind.callback is not SsoProvider.callback
        assert redirects or kind.password_login is not SsoProvider.password_login

    def test_the_login_address_is_an_address(self) -> None:
        """It carries the state, so that an answer can be told from a forged one."""
        if type(self.provider).login_url is SsoProvider.login_url:
            pytest.skip("this provider has no redirect")
        url = self.provider.login_url(self.provider_settings(), "the-state", "http://127.0.0.1/callback")
        assert urlsplit(url).scheme in ("http", "https"), url
        assert "the-state" in url, "the state is not part of the address"

    def test_a_refused_callback_is_a_login_error(self) -> None:
        """The user pressed cancel, or somebody made the address up."""
        if type(self.provider).callback is SsoProvider.callback:
            pytest.skip("this provider has no redirect")
        for query in ({}, {"error": "access_denied", "state": "x"}):
            with pytest.raises(LoginError):
                self.provider.callback(self.provider_settings(), query, "http://127.0.0.1/callback")
