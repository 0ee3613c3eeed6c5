"""Directed graphs: what can be reached from where, and which nodes go round in a circle."""

from collections.abc import Collection, Iterable, Iterator, Mapping

Graph = Mapping[str, Collection[str]]


def reachable_nodes(graph: Graph, starts: Iterable[str]) -> set[str]:
    """The starts themselves included."""
    seen: set[str] = set()
    waiting = list(starts)
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(graph.get(node, ()))
    return seen


def reverse_graph(graph: Graph) -> dict[str, list[str]]:
    turned: dict[str, list[str]] = {}
    for node, others in graph.items():
        for other in others:
            turned.setdefault(other, []).append(node)
    return turned


def find_cycles(graph: Graph) -> Iterator[tuple[str, ...]]:
    """Each largest set of nodes that all lead to each other, in the order of the graph; a node that leads only
    to itself is one. Kosaraju's algorithm without recursion: a package may chain thousands of names."""
    position = {node: index for index, node in enumerate(graph)}
    backwards = reverse_graph(graph)
    placed: set[str] = set()
    for start in reversed(_finish_order(graph)):
        if start in placed:
            continue
        members = _collect_unplaced(backwards, start, placed)
        if len(members) > 1 or start in graph.get(start, ()):
            yield tuple(sorted(members & set(position), key=position.__getitem__))


def _collect_unplaced(graph: Graph, start: str, placed: set[str]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node not in placed:
            placed.add(node)
            found.add(node)
            waiting.extend(graph.get(node, ()))
    return found


def _finish_order(graph: Graph) -> list[str]:
    """Nodes in the order in which a depth-first walk is done with them."""
    order: list[str] = []
    seen: set[str] = set()
    for start in graph:
        if start in seen:
            continue
        seen.add(start)
        path = [(start, iter(graph.get(start, ())))]
        while path:
            node, others = path[-1]
            following = next((other for other in others if other not in seen), None)
            if following is None:
                path.pop()
                order.append(node)
            else:
                seen.add(following)
                path.append((following, iter(graph.get(following, ()))))
    return order
