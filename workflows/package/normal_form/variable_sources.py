"""The normal form of variable sources: one class for each kind of source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from workflows.context.state.state_transitions import Transition

SourceKind = Literal["env", "db", "entity", "static", "state", "computed", "external", "file", "runtime"]
WriteStrategy = Literal["immediate", "on_success"]
PersistKey = Literal["none", "user_id", "chat_id"]


@dataclass(frozen=True, slots=True)
class EnvSource:
    """An environment variable of the worker; always absent in production."""

    kind: ClassVar[SourceKind] = "env"
    env_var: str


@dataclass(frozen=True, slots=True)
class DatabaseSource:
    """The newest matching document, projected to `fields`.

    One field gives its value, several a mapping. `is_refreshed`: it is read again before each turn of an agent that
    sees it.
    """

    kind: ClassVar[SourceKind] = "db"
    database: str
    collection: str
    query: Mapping[str, Any]
    fields: tuple[str, ...]
    is_refreshed: bool = False


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A document of this app, found by the field `search_by`.

    The field's value is the filled `value`, else the run's value of the same name. Without `field` the variable's
    mapping is written field by field.
    """

    database: str
    collection: str
    search_by: str
    strategy: WriteStrategy
    field: str | None = None
    value: Any = None  # a template, such as {{runtime.order_id}}


@dataclass(frozen=True, slots=True)
class EntitySource:
    """A document that is read at the start and written back, unless `write` is None.

    `query` finds it; without one the run's value of `search_by` does.
    """

    kind: ClassVar[SourceKind] = "entity"
    database: str
    collection: str
    search_by: str
    fields: tuple[str, ...]
    write: WriteTarget | None = None
    query: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class StaticSource:
    """A constant of the workflow: the variable's default."""

    kind: ClassVar[SourceKind] = "static"


@dataclass(frozen=True, slots=True)
class StateSource:
    """A state that begins at its default and is changed by transitions and tools.

    `persist_key`: the owner of the value with which later runs begin; None if the value ends with its run.
    """

    kind: ClassVar[SourceKind] = "state"
    transitions: tuple[Transition, ...] = ()
    persist_key: PersistKey | None = None


@dataclass(frozen=True, slots=True)
class ComputedSource:
    """A JMESPath expression over the variables in `inputs`.

    Without one a tool writes the value.
    """

    kind: ClassVar[SourceKind] = "computed"
    computation: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    persist_to: WriteTarget | None = None


@dataclass(frozen=True, slots=True)
class Authorization:
    """The credentials of an HTTP call.

    `secret` is a reference (env:NAME, file:PATH), never the secret itself.
    """

    scheme: Literal["bearer", "basic", "header"]
    secret: str
    header: str = "Authorization"


@dataclass(frozen=True, slots=True)
class ExternalSource:
    """An HTTP GET to a host that the operator allowed.

    Only path and query may have placeholders.
    """

    kind: ClassVar[SourceKind] = "external"
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    authorization: Authorization | None = None
    timeout_s: float = 5.0
    attempts: int = 2
    cache_ttl_s: float = 0.0
    select: str | None = None


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file of the package, read when the package is loaded.

    Its content is part of the version.
    """

    kind: ClassVar[SourceKind] = "file"
    path: str
    content: Any = None


@dataclass(frozen=True, slots=True)
class RuntimeSource:
    """A value from the start of the run, under the variable's own name."""

    kind: ClassVar[SourceKind] = "runtime"


Source = (
    EnvSource
    | DatabaseSource
    | EntitySource
    | StaticSource
    | StateSource
    | ComputedSource
    | ExternalSource
    | FileSource
    | RuntimeSource
)
