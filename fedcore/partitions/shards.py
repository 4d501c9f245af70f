"""Pathological label skew: rows sorted by label, a few shards for each client.

McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, §3: with two shards most clients have two labels.
"""

from fedcore.partitions.base import Labels, Partition, Parts, deal_shards, memoise


@memoise
def shards(y: Labels, *, clients: int, per_client: int = 2, seed: int = 0) -> Partition:
    """Gives each client random shards of the rows sorted by label.

    Args:
        y: the label of each row.
        clients: the number of clients.
        per_client: the number of shards that each client has.
        seed: of the draw.

    Returns:
        The rows of each client, ascending.

    Raises:
        ConfigError: there are fewer rows than shards.
    """
    return Parts(deal_shards(y, clients, per_client, seed), clients)
