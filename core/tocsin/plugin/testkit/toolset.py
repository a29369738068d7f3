"""The contract of toolsets: subclass :class:`ToolsetContract` in your plugin's tests."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import orjson
import pytest

from tocsin.plugin import ApiCall, Tool, Toolset
from tocsin.plugin.testkit.contract import PluginContract

JSON_TYPES = frozenset(("string", "integer", "number", "boolean", "object", "array", "null"))
METHODS = frozenset(("GET", "POST", "PUT", "DELETE"))


class ToolsetContract(PluginContract, ABC):
    """What a toolset promises: well-described tools, each of them a call of the page API."""

    toolset_name: ClassVar[str] = ""
    """Which set to test when the plugin supplies several."""

    @abstractmethod
    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return working arguments for every tool, by tool name."""

    @property
    def toolset(self) -> Toolset:
        """The set under test."""
        return self.supplied(Toolset, self.toolset_name)

    def tools(self) -> dict[str, Tool]:
        """Return the set's tools by name."""
        tools = self.toolset.tools()
        assert tools, "the toolset is empty"
        named = {tool.name: tool for tool in tools}
        assert len(named) == len(tools), "two tools have one name"
        return named

    def test_tools_are_described(self) -> None:
        """An AI client sees names, titles and descriptions, nothing else."""
        for name, tool in self.tools().items():
            assert re.fullmatch(r"[a-z][a-z0-9_]*", name), f"{name}: lower-case letters, digits and underscores only"
            assert tool.title.strip(), f"{name} has no title"
            assert len(tool.description) >= 20, f"{name}: the description says too little"

    def test_schemas_are_json_schemas_of_objects(self) -> None:
        """Every property has a type, required ones exist, and the whole can be sent as JSON."""
        for name, tool in self.tools().items():
            schema = tool.input_schema
            orjson.dumps(dict(schema))
            assert schema.get("type") == "object", f"{name}: the schema's type is {schema.get('type')!r}"
            properties = schema.get("properties", {})
            for key, value in properties.items():
                assert value.get("type") in JSON_TYPES, f"{name}.{key}: type {value.get('type')!r}"
            missing = set(schema.get("required", ())) - set(properties)
            assert not missing, f"{name}: required but not described: {sorted(missing)}"

    def test_there_are_arguments_for_every_tool(self) -> None:
        """A tool nobody tries is a tool nobody knows to work."""
        assert set(self.arguments()) == set(self.tools())

    def test_calls_go_to_the_page_api(self) -> None:
        """A path is relative to ``/api/svc``, and a tool that only reads does not delete or replace."""
        for name, tool in self.tools().items():
            call = tool.call(self.arguments()[name])
            assert isinstance(call, ApiCall), f"{name}: call() returned {type(call).__name__}"
            assert call.method in METHODS, f"{name}: method {call.method}"
            assert call.path.startswith("/"), f"{name}: path {call.path!r}"
            assert not call.path.startswith("/api/svc"), f"{name}: the path holds the prefix"
            assert tool.write or call.method in ("GET", "POST"), f"{name} changes something but is not marked as write"
            orjson.dumps(call.body)

    def test_arguments_are_read_only(self) -> None:
        """A call does not change what it was given."""
        for name, tool in self.tools().items():
            given = dict(self.arguments()[name])
            before = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
            tool.call(given)
            assert orjson.dumps(given, option=orjson.OPT_SORT_KEYS) == before, f"{name} changes its arguments"

    def test_missing_arguments_do_not_crash(self) -> None:
        """Whatever the schema lets through is a ``ValueError`` at most."""
        for name, tool in self.tools().items():
            required = set(tool.input_schema.get("required", ()))
            least = {key: value for key, value in self.arguments()[name].items() if key in required}
            try:
                tool.call(least)
            except ValueError:
                continue
            except Exception as error:
                pytest.fail(f"{name} with only required arguments: {type(error).__name__}: {error}")
