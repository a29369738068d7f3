"""The MCP endpoint: tools of the installed toolsets, every call dispatched onto the page API as its caller."""
