"""The subcommands that come with core; each is a plugin command like any other."""

from tocsin.app.commands.config import ConfigCommand
from tocsin.app.commands.new_plugin import PluginCommand
from tocsin.app.commands.plugins import PluginsCommand
from tocsin.app.commands.routes import RoutesCommand
from tocsin.plugin import Command


def builtin_commands() -> list[Command]:
    """Return core's own subcommands."""
    return [ConfigCommand(), PluginsCommand(), PluginCommand(), RoutesCommand()]


__all__ = ["builtin_commands"]
