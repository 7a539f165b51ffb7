//! Handles: what the things of one connection are called on it. Small tables with a limit; a number is not used twice
//! before four thousand million others were.

use std::collections::BTreeMap;

/// A table of things with handles from 1 on; 0 is none.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    rows: BTreeMap<u32, T>,
    last: u32,
    limit: usize,
}

impl<T> Handles<T> {
    /// A table for at most `limit` things.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            rows: BTreeMap::new(),
            last: 0,
            limit,
        }
    }

    /// Whether nothing more fits.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= self.limit
    }

    /// Puts a thing in: its handle, or the thing itself where the table is full.
    pub(crate) fn insert(&mut self, thing: T) -> Result<u32, T> {
        if self.is_full() {
            return Err(thing);
        }
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.rows.contains_key(&self.last) {
                self.rows.insert(self.last, thing);
                return Ok(self.last);
            }
        }
    }

    /// What `handle` names.
    pub(crate) fn get(&self, handle: u32) -> Option<&T> {
        self.rows.get(&handle)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.rows.get_mut(&handle)
    }

    /// Takes out what `handle` names.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<T> {
        self.rows.remove(&handle)
    }

    /// Everything, by handle.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.rows.iter().map(|(handle, thing)| (*handle, thing))
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.rows).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_begin_at_one_are_not_reused_and_have_a_limit() {
        let mut handles = Handles::new(2);
        assert_eq!(handles.insert('a'), Ok(1));
        assert_eq!(handles.insert('b'), Ok(2));
        assert_eq!(handles.insert('c'), Err('c'));
        assert_eq!(handles.remove(1), Some('a'));
        assert_eq!(handles.remove(1), None);
        assert_eq!(handles.insert('d'), Ok(3));
        assert_eq!(
            (handles.get(0), handles.get(1), handles.get(3)),
            (None, None, Some(&'d'))
        );
        handles.last = u32::MAX;
        assert_eq!(handles.remove(2), Some('b'));
        assert_eq!(handles.insert('e'), Ok(1));
        handles.last = u32::MAX;
        assert_eq!(handles.remove(3), Some('d'));
        // 0 is none, and 1 is in use.
        assert_eq!(handles.insert('f'), Ok(2));
    }
}
