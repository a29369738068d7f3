"""The channel type ``callback``: notifications as HTTP requests to any receiver."""

from tocsin.plugin import ChannelType, hookimpl
from tocsin_channel_webhook.channel import CallbackChannel


@hookimpl
def tocsin_channels() -> list[ChannelType]:
    """Return the one type of this plugin."""
    return [CallbackChannel()]
