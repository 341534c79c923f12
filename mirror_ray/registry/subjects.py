"""Which subjects a flow mirrors, and what they are named on the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mirror_ray.model.patterns import Pattern
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.registry.schema import Subject

#: What Confluent's TopicNameStrategy puts behind a topic's name.
_SUFFIXES: Final = ("-key", "-value")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRules:
    """A flow's rules for subjects."""

    topics: ReplicationRules
    include: Pattern | None
    exclude: Pattern | None = None
    #: Names on the target by names on the source, as requests name them.
    names: Mapping[str, str] = field(default_factory=dict)
    #: Contexts of the target by contexts of the source; the others keep theirs.
    contexts: Mapping[str, str] = field(default_factory=dict)
    #: Whether ``orders-value`` is named as the remote topic of ``orders`` is.
    follow_topics: bool = True
    #: The names so far: each is asked for again and again.
    _targets: dict[Subject, Subject] = field(default_factory=dict, init=False, repr=False, compare=False)

    def mirrors(self, subject: Subject) -> bool:
        """Whether a subject is chosen, and not that of a copy from the target."""
        return self.include is not None and self.include.fits(str(subject)) and self.may_mirror(subject)

    def may_mirror(self, subject: Subject) -> bool:
        """Whether a subject may be mirrored because another one refers to it."""
        text = str(subject)
        if self.exclude is not None and self.exclude.fits(text):
            return False
        topic = self.topic_of(subject) if text not in self.names else None
        return topic is None or not self.topics.is_cycle(topic)

    def target(self, subject: Subject) -> Subject:
        """The subject on the target."""
        found = self._targets.get(subject)
        if found is None:
            found = self._targets[subject] = self._target(subject)
        return found

    def _target(self, subject: Subject) -> Subject:
        context = self.contexts.get(subject.context, subject.context)
        mapped = self.names.get(str(subject))
        if mapped is not None:
            return Subject.parse(mapped, context)
        topic = self.topic_of(subject)
        if topic is None:
            return Subject(context, subject.name)
        return Subject(context, self.topics.remote_topic(topic) + subject.name[len(topic) :])

    def topic_of(self, subject: Subject) -> str | None:
        """The topic that a subject is named after and whose naming it follows; None: there is none."""
        if not self.follow_topics:
            return None
        topic = next((subject.name.removesuffix(end) for end in _SUFFIXES if subject.name.endswith(end)), "")
        return topic or None
