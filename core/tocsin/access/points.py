"""The permission points: their arrangement for people, and what the built-in roles hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """Points that are shown together, each with its display text; ``name`` and ``title`` name the group itself."""

    name: str
    title: str
    points: tuple[tuple[str, str], ...]


def _crud(path: str, thing: str, actions: str = "view add put del") -> tuple[tuple[str, str], ...]:
    """Return the points of one kind of object: ``path`` itself to view it, ``path/<action>`` to change it."""
    titles = {"view": "View", "add": "Add", "put": "Modify", "del": "Delete", "delete": "Delete"}
    return tuple(
        (path if action == "view" else f"{path}/{action}", f"{thing} - {titles[action]}") for action in actions.split()
    )


CATALOGUE: tuple[Group, ...] = (
    Group("Infrastructure", "Infrastructure", _crud("/targets", "Host")),
    Group(
        "Explorer",
        "Explorer",
        (
            ("/metric/explorer", "Metric Explorer"),
            ("/object/explorer", "Object Explorer"),
            *_crud("/builtin-metrics", "Metric Views", "add put del"),
            *_crud("/recording-rules", "Recording Rule"),
            ("/log/explorer", "Log Explorer"),
            *_crud("/log/index-patterns", "Index Pattern", "add put del"),
            ("/trace/explorer", "Trace Explorer"),
            ("/trace/dependencies", "Trace Dependencies"),
            *_crud("/dashboards", "Dashboard"),
            ("/dashboards-built-in", "Built-in Dashboards"),
        ),
    ),
    Group(
        "alerting",
        "Alerting",
        (
            *_crud("/alert-rules", "Alerting Rule"),
            ("/alert-rules-built-in", "Built-in Alerting Rules"),
            *_crud("/alert-mutes", "Mute"),
            *_crud("/alert-subscribes", "Subscription"),
            *_crud("/job-tpls", "Job Template"),
            *_crud("/job-tasks", "Job", "view add put"),
            *_crud("/alert-cur-events", "Active Event", "view del"),
            ("/alert-his-events", "Historical Event - View"),
        ),
    ),
    Group(
        "Notification",
        "Notification",
        (
            *_crud("/notification-rules", "Notification Rule"),
            *_crud("/notification-channels", "Media Type"),
            *_crud("/notification-templates", "Message Template"),
            *_crud("/event-pipelines", "Event Pipeline"),
            ("/help/notification-settings", "Notification Settings"),
        ),
    ),
    Group(
        "Integrations",
        "Integrations",
        (
            *_crud("/components", "Template Center", "add put del"),
            *_crud("/embedded-product", "Embedded System", "add put delete"),
            *_crud("/embedded-dashboards", "Embedded Dashboards", "view put"),
        ),
    ),
    Group(
        "Organization",
        "Organization",
        (
            *_crud("/users", "User"),
            *_crud("/user-groups", "Team"),
            *_crud("/busi-groups", "Business Group"),
            *_crud("/roles", "Role"),
        ),
    ),
    Group(
        "System Settings",
        "System Settings",
        (
            ("/system/variable-settings", "Variable Settings"),
            ("/system/alerting-engines", "Alerting Engines"),
            ("/ai-config/llm-configs", "Language Models"),
            ("/ai-config/skills", "Assistant Skills"),
            ("/help/servers", "Servers"),
            ("/help/migrate", "Migration"),
            ("/help/version", "Version"),
            ("/help/contact", "Contact"),
        ),
    ),
)
"""Every permission point there is, once."""

ALL_POINTS: tuple[str, ...] = tuple(point for group in CATALOGUE for point, _ in group.points)

ADMIN = "Admin"
"""The role that passes every check; it stores no points and cannot be changed."""

GUEST_POINTS: frozenset[str] = frozenset(
    ("/help/contact", "/help/version", "/log/explorer", "/metric/explorer", "/object/explorer", "/trace/explorer")
)

_NOT_STANDARD: tuple[str, ...] = (
    "/ai-config/",
    "/builtin-metrics/",
    "/components/",
    "/embedded-",
    "/event-pipelines",
    "/help/notification-settings",
    "/log/index-patterns/",
    "/notification-",
    "/roles",
    "/system/",
    "/users/",
    "/alert-mutes/put",
)
STANDARD_POINTS: frozenset[str] = frozenset(point for point in ALL_POINTS if not point.startswith(_NOT_STANDARD))

BUILT_IN_ROLES: tuple[tuple[str, str, frozenset[str]], ...] = (
    (ADMIN, "Administrator role", frozenset()),
    ("Standard", "Ordinary user role", STANDARD_POINTS),
    ("Guest", "Readonly user role", GUEST_POINTS),
)
"""Name, note and points of the roles that an installation starts with."""
