"""Natural clients: a client holds the rows that it produced."""

from fedcore.errors import ConfigError
from fedcore.partitions.base import Labels, Partition, Parts, classes_of, memoise


@memoise
def by_column(ids: Labels) -> Partition:
    """Gives each distinct id to one client, in the order of the sorted ids.

    Args:
        ids: who has produced each row.

    Returns:
        The rows of each client, ascending.

    Raises:
        ConfigError: there are no rows.

    Example:
        >>> [part.tolist() for part in by_column(["b", "a", "b"])]
        [[1], [0, 2]]
    """
    if not len(ids):
        raise ConfigError("by_column needs at least one row")
    names, owner_R = classes_of(ids)
    return Parts(owner_R, len(names))
