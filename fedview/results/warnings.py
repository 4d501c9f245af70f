"""Warns of clients that dominate the model or are missing in it, and of labels."""

from collections.abc import Iterable

import numpy as np

from fedview.results.coverage import LEAST_RECENT, Coverage, Share

FEW = 10  # few dominate if one client in ten makes half of the model
MANY = 10  # a client with this many times the steps and a tenth of the updates fades
LEAST_CLIENTS = 4  # of fewer, one often makes half of it
FADING = 0.25  # a label with less than this part of its share over all fades
RARE = 0.1  # one with less than this part of an even share does not
MOST_NAMED = 5


def absence(coverage: Coverage) -> str:
    """Says which clients are missing; empty if none is."""
    missing = coverage.missing
    if not missing:
        return ""
    some = _list_names([f"{client.name} ({since(client)})" for client in missing])
    names = {client.name for client in list(coverage.clients.values())}
    who = f"{len(missing):,} of {len(names):,} clients"
    return f"{who} had no part in the last {coverage.recent_updates:,} updates: {some}."


def warnings(coverage: Coverage) -> list[str]:
    """Warns of small versions, dominant clients, long tasks, and labels that fade."""
    few = _domination(coverage), _imbalance(coverage), _fading(coverage)
    said = [sentence for found in few for sentence in found]
    if short := coverage.short.sentence:
        said.insert(0, f"{short[0].upper()}{short[1:]}.")
    return said


def since(client: Share) -> str:
    """Says since when a client is missing."""
    return "never" if client.version is None else f"since version {client.version:,}"


def _domination(coverage: Coverage) -> Iterable[str]:
    clients, few = len(coverage.clients), coverage.half
    if (
        clients < LEAST_CLIENTS
        or len(few) > max(1, clients // FEW)
        or coverage.recent_updates < LEAST_RECENT
    ):
        return
    some = [f"{c.name} ({c.recent / coverage.recent_mass:.0%})" for c in few]
    who = f"{len(few):,} of {clients:,} clients make{'' if len(few) > 1 else 's'}"
    what = f"half of the last {coverage.recent_updates:,} updates"
    yield f"{who} up {what}: {_list_names(some)}."


def _imbalance(coverage: Coverage) -> Iterable[str]:
    """Warns if clients with longer tasks deliver far fewer updates."""
    clients = [client for client in coverage.clients.values() if client.updates]
    if coverage.recent_updates < LEAST_RECENT or len(clients) < LEAST_CLIENTS:
        return
    rare = min(clients, key=lambda client: (client.updates, -client.steps))
    often = max(clients, key=lambda client: client.updates)
    rare_steps, often_steps = (c.steps / c.updates for c in (rare, often))
    if often.updates < MANY * rare.updates or rare_steps < MANY * often_steps:
        return
    updates = sum(client.updates for client in clients)
    yield (
        f"{rare.name} takes {rare_steps:,.0f} steps for an update and made "
        f"{rare.updates:,} of {updates:,}, {often.name} takes {often_steps:,.0f} "
        f"and made {often.updates:,}: long tasks count little here; "
        "algorithm.client.steps gives all clients tasks of one length."
    )


def _fading(coverage: Coverage) -> Iterable[str]:
    all_C, recent_C, last_C = coverage.label_shares()
    fades_C = (recent_C < FADING * all_C) & (all_C * (last_C >= 0).sum() > RARE)
    fading = [
        f"{label} ({recent_C[label]:.1%}, {all_C[label]:.1%} of all, "
        f"last used at version {last_C[label]:,})"
        for label in np.flatnonzero(fades_C)
    ]
    if fading:
        some = "Label that fades" if len(fading) == 1 else "Labels that fade"
        updates = f"{coverage.recent_labels:,} updates"
        yield f"{some} in the last {updates}: {_list_names(fading)}."


def _list_names(names: list[str]) -> str:
    """Lists the first few names, and how many more there are."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
