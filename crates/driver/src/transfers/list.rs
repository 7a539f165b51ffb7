//! Doubly linked lists through the rows of a table, sorted.

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// A node's neighbours in one list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) previous: u32,
    pub(super) next: u32,
}

impl Link {
    pub(super) const ALONE: Self = Self {
        previous: NONE,
        next: NONE,
    };
}

/// Where a list begins and ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl End {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };
}

/// Puts a node that is in no such list before all that `follow` it, from the last on.
pub(super) fn insert<N>(
    nodes: &mut [N],
    end: &mut End,
    at: u32,
    link: fn(&mut N) -> &mut Link,
    follows: impl Fn(&N) -> bool,
) {
    let mut previous = end.last;
    while let Some(node) = nodes.get_mut(previous as usize).filter(|node| follows(node)) {
        previous = link(node).previous;
    }
    let next = match nodes.get_mut(previous as usize) {
        Some(node) => link(node).next,
        None => end.first,
    };
    join(nodes, end, previous, at, link);
    join(nodes, end, at, next, link);
}

/// Takes a node out of its list.
pub(super) fn unlink<N>(nodes: &mut [N], end: &mut End, at: u32, link: fn(&mut N) -> &mut Link) {
    if let Some(node) = nodes.get_mut(at as usize) {
        let Link { previous, next } = std::mem::replace(link(node), Link::ALONE);
        join(nodes, end, previous, next, link);
    }
}

/// Makes `after` follow `before`; either may be none.
fn join<N>(nodes: &mut [N], end: &mut End, before: u32, after: u32, link: fn(&mut N) -> &mut Link) {
    match nodes.get_mut(before as usize) {
        Some(node) => link(node).next = after,
        None => end.first = after,
    }
    match nodes.get_mut(after as usize) {
        Some(node) => link(node).previous = before,
        None => end.last = before,
    }
}
