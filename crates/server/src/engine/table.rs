//! A table whose rows are named by position and generation, so that a stale name finds nothing.

/// One row.
#[derive(Debug)]
struct Row<T> {
    generation: u32,
    value: Option<T>,
}

/// Rows that come and go, at most as many as the limit says.
#[derive(Debug)]
pub(crate) struct Table<T> {
    rows: Vec<Row<T>>,
    vacant: Vec<u32>,
    limit: usize,
}

impl<T> Table<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            rows: Vec::new(),
            vacant: Vec::new(),
            limit,
        }
    }

    /// Whether one more row fits.
    pub(crate) fn has_room(&self) -> bool {
        !self.vacant.is_empty() || self.rows.len() < self.limit
    }

    /// Puts in what `make` makes of the new row's position and generation; `None` where the table is full.
    pub(crate) fn insert(&mut self, make: impl FnOnce(u32, u32) -> T) -> Option<(u32, u32)> {
        if !self.has_room() {
            return None;
        }
        let index = match self.vacant.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.rows.len()).ok()?;
                self.rows.push(Row {
                    generation: 0,
                    value: None,
                });
                index
            }
        };
        let row = self.rows.get_mut(index as usize)?;
        row.value = Some(make(index, row.generation));
        Some((index, row.generation))
    }

    pub(crate) fn get(&self, index: usize, generation: u32) -> Option<&T> {
        let row = self.rows.get(index)?;
        row.value.as_ref().filter(|_| row.generation == generation)
    }

    pub(crate) fn get_mut(&mut self, index: usize, generation: u32) -> Option<&mut T> {
        let row = self.rows.get_mut(index)?;
        row.value.as_mut().filter(|_| row.generation == generation)
    }

    /// Rows that there are.
    pub(crate) fn count(&self) -> usize {
        self.rows.len() - self.vacant.len()
    }

    /// Positions that were ever used.
    pub(crate) fn length(&self) -> usize {
        self.rows.len()
    }

    /// The row at a position, whatever its generation.
    pub(crate) fn at(&self, index: usize) -> Option<&T> {
        self.rows.get(index)?.value.as_ref()
    }

    pub(crate) fn at_mut(&mut self, index: usize) -> Option<&mut T> {
        self.rows.get_mut(index)?.value.as_mut()
    }

    pub(crate) fn remove(&mut self, index: usize, generation: u32) -> Option<T> {
        let row = self.rows.get_mut(index)?;
        if row.generation != generation {
            return None;
        }
        let value = row.value.take()?;
        row.generation = row.generation.wrapping_add(1);
        self.vacant.push(u32::try_from(index).ok()?);
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let rows = self.rows.iter().enumerate();
        rows.filter_map(|(index, row)| Some((index, row.value.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        let rows = self.rows.iter_mut().enumerate();
        rows.filter_map(|(index, row)| Some((index, row.value.as_mut()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn stale_names_find_nothing() {
        let mut table = Table::new(1);
        let (index, generation) = table.insert(|_, _| 'a').unwrap();
        assert_eq!(table.insert(|_, _| 'b'), None);
        assert_eq!(table.get(index as usize, generation), Some(&'a'));
        assert_eq!(table.remove(index as usize, generation), Some('a'));
        let (again, later) = table.insert(|_, _| 'c').unwrap();
        assert_eq!(again, index);
        assert_eq!(table.get(index as usize, generation), None);
        assert_eq!(table.remove(index as usize, generation), None);
        assert_eq!(table.get(index as usize, later), Some(&'c'));
    }
}
