"""Notification: rules match events to channels, templates say what is sent, and every send leaves a record."""
