"""Directed graphs: reachable nodes and cycles."""

from collections.abc import Collection, Iterable, Iterator, Mapping

Graph = Mapping[str, Collection[str]]


def reachable_nodes(graph: Graph, starts: Iterable[str]) -> set[str]:
    """Returns all nodes that can be reached from the starts, which are included."""
    seen: set[str] = set()
    pending = list(starts)
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending.extend(graph.get(node, ()))
    return seen


def reverse_graph(graph: Graph) -> dict[str, list[str]]:
    reversed_graph: dict[str, list[str]] = {}
    for node, others in graph.items():
        for other in others:
            reversed_graph.setdefault(other, []).append(node)
    return reversed_graph


def find_cycles(graph: Graph) -> Iterator[tuple[str, ...]]:
    """Yields each strongly connected component with a cycle, in graph order.

    Kosaraju's algorithm without recursion, since a package may chain thousands of names.
    """
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
    component: set[str] = set()
    pending = [start]
    while pending:
        node = pending.pop()
        if node not in placed:
            placed.add(node)
            component.add(node)
            pending.extend(graph.get(node, ()))
    return component


def _finish_order(graph: Graph) -> list[str]:
    """Returns the nodes in the postorder of a depth-first walk."""
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
