"""Who somebody is and what they may do: users, teams, roles, business groups, sessions and personal tokens.

Other capabilities use the services that this one provides (``core.get(Directory)`` and so on):
:class:`~tocsin.access.directory.Directory` for users, teams and group membership as of now,
:class:`~tocsin.access.configs.Configs` for key/value settings, and
:class:`~tocsin.access.neighbours.GroupHooks` to take part in the life of business groups.
"""
