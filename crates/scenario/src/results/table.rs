//! Plain text tables.

/// Which side of its column a cell leans to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// An aligned table of plain text.
///
/// ```
/// use freehold_scenario::results::{Align, TextTable};
/// let mut table = TextTable::new(&[("task", Align::Left), ("jobs", Align::Right)]);
/// table.row(["tau1".to_owned(), "7".to_owned()]);
/// assert_eq!(table.to_string(), "task  jobs\ntau1     7\n");
/// ```
#[derive(Clone, Debug)]
pub struct TextTable {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with these headings.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let head = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Self {
            aligns: columns.iter().map(|(_, align)| *align).collect(),
            rows: vec![head],
        }
    }

    /// Adds a row. Cells past the headings are dropped, missing ones are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().take(self.aligns.len()).collect());
    }

    /// Whether it has no rows beneath the headings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }
}

impl std::fmt::Display for TextTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |cell: &String| cell.chars().count();
        let cell = |row: &Vec<String>, column: usize| row.get(column).map_or(0, width);
        let widest = |column: usize| self.rows.iter().map(|row| cell(row, column)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.aligns.len()).map(widest).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (align, width)) in self.aligns.iter().zip(&widths).enumerate() {
                let text = row.get(column).map_or("", String::as_str);
                let gap = if column == 0 { "" } else { "  " };
                line.push_str(&match align {
                    Align::Left => format!("{gap}{text:<width$}"),
                    Align::Right => format!("{gap}{text:>width$}"),
                });
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
