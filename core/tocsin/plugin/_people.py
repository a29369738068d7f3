"""What a feature may ask about people and business groups."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tocsin.http.access import Caller


class People(ABC):
    """Users, teams and business groups as a plugin sees them: ``core.get(People)``.

    Answers are as of now, from memory; asking costs one small query per request at most.
    """

    @abstractmethod
    def team_ids(self, caller: Caller) -> frozenset[int]:
        """Return the ids of the teams the caller is a member of."""

    @abstractmethod
    def readable_group_ids(self, caller: Caller) -> frozenset[int]:
        """Return the ids of the business groups the caller may read; Admin gets all."""

    @abstractmethod
    def writable_group_ids(self, caller: Caller) -> frozenset[int]:
        """Return the ids of the business groups the caller may change; Admin gets all."""

    @abstractmethod
    def nickname(self, username: str) -> str:
        """Return the display name of a user name, or an empty text when there is no such user."""
