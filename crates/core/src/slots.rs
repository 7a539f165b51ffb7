//! A table of fixed size whose slots are named with generations.

use alloc::vec::Vec;

/// One slot.
#[derive(Debug)]
struct Slot<T> {
    generation: u16,
    value: Option<T>,
}

/// A table of at most 65,534 things.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
}

impl<T> Slots<T> {
    pub(crate) fn with_capacity(count: u16) -> Option<Self> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(usize::from(count)).ok()?;
        slots.resize_with(usize::from(count), || Slot {
            generation: 0,
            value: None,
        });
        Some(Self { slots })
    }

    /// Puts `value` into the first vacant slot and returns index and generation. O(slots).
    pub(crate) fn insert(&mut self, value: T) -> Option<(u16, u16)> {
        let index = self.slots.iter().position(|slot| slot.value.is_none())?;
        let slot = &mut self.slots[index];
        slot.value = Some(value);
        Some((u16::try_from(index).ok()?, slot.generation))
    }

    /// Slots, vacant ones included.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn has_vacancy(&self) -> bool {
        self.slots.iter().any(|slot| slot.value.is_none())
    }

    /// The index that the next `insert` uses.
    pub(crate) fn next_vacant(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.value.is_none())
    }

    /// Empties a slot; ids of it are stale from now on.
    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        let slot = self.slots.get_mut(index)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        Some(value)
    }

    pub(crate) fn get(&self, index: usize, generation: u16) -> Option<&T> {
        self.slots
            .get(index)
            .filter(|slot| slot.generation == generation)?
            .value
            .as_ref()
    }

    pub(crate) fn at(&self, index: usize) -> Option<&T> {
        self.slots.get(index)?.value.as_ref()
    }

    pub(crate) fn at_mut(&mut self, index: usize) -> Option<&mut T> {
        self.slots.get_mut(index)?.value.as_mut()
    }

    pub(crate) fn generation(&self, index: usize) -> u16 {
        self.slots.get(index).map_or(0, |slot| slot.generation)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((index, slot.value.as_ref()?)))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<T>>()
    }
}
