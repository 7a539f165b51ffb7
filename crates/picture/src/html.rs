//! Text and tables of a page.

use std::fmt::Write;

use freehold_protocol::shown::shown;

use crate::number;

/// Text that a page can hold, whatever it is: the five characters that mean something to HTML are written by name, and
/// those that cannot be seen or move the text around them by number (see [`shown()`]).
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    // What ends a line or a cell is room there.
    for character in shown(&text.replace(['\t', '\n'], " ")) {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(character),
        }
    }
    safe
}

/// One cell of a table.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// What the row is of.
    Head(String),
    /// Words.
    Text(String),
    /// A count.
    Count(u64),
    /// A time in nanoseconds: read as three digits and a unit, kept exactly.
    Time(u64),
    /// Part of a time, with the whole it is of.
    Share(u64, u64),
    /// A number that is not there.
    None,
}

/// A table with a caption, a heading for every column, and one for every row.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    caption: String,
    columns: Vec<String>,
    rows: Vec<(Vec<Cell>, bool)>,
}

impl Table {
    pub(crate) fn new(caption: &str, columns: &[&str]) -> Self {
        Self {
            caption: caption.to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push((cells, false));
    }

    /// A row that asks for attention; its text says why.
    pub(crate) fn marked_row(&mut self, cells: Vec<Cell>) {
        self.rows.push((cells, true));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The same table with these rows only.
    pub(crate) fn part(&self, caption: &str, rows: std::ops::Range<usize>) -> Self {
        Self {
            caption: caption.to_owned(),
            columns: self.columns.clone(),
            rows: self.rows.get(rows).unwrap_or_default().to_vec(),
        }
    }

    pub(crate) fn to_html(&self) -> String {
        let mut html = String::from("<div class=\"scroll\"><table>\n");
        let _ = writeln!(html, "<caption>{}</caption>", escape(&self.caption));
        html.push_str("<thead><tr>");
        let first = self.rows.first().map(|(cells, _)| cells.as_slice()).unwrap_or_default();
        for (at, column) in self.columns.iter().enumerate() {
            let words = matches!(first.get(at), None | Some(Cell::Head(_) | Cell::Text(_)));
            let class = if words { " class=\"words\"" } else { "" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(column));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for (cells, marked) in &self.rows {
            html.push_str(if *marked { "<tr class=\"marked\">" } else { "<tr>" });
            for cell in cells {
                write_cell(&mut html, cell);
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n");
        html
    }
}

fn write_cell(html: &mut String, cell: &Cell) {
    // Writing to a `String` cannot fail.
    let _ = match cell {
        Cell::Head(text) => write!(html, "<th scope=\"row\">{}</th>", escape(text)),
        Cell::Text(text) => write!(html, "<td class=\"words\">{}</td>", escape(text)),
        Cell::Count(count) => write!(html, "<td>{}</td>", data(*count, &number::grouped(*count))),
        Cell::Time(ns) => write!(html, "<td>{}</td>", data(*ns, &number::time(*ns))),
        Cell::Share(ns, whole) => {
            let percent = u128::from(*ns) * 100 / u128::from((*whole).max(1));
            let text = data(*ns, &number::time(*ns));
            write!(html, "<td>{text} <small>{percent}&#8239;%</small></td>")
        }
        Cell::None => write!(html, "<td>&#8211;</td>"),
    };
}

/// A number as read, with the exact one for programs.
pub(crate) fn data(exact: u64, text: &str) -> String {
    format!("<data value=\"{exact}\">{}</data>", escape(text))
}

/// A paragraph.
pub(crate) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes() {
        assert_eq!(
            escape("<a href='x'>&\"\u{0}\n"),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\\u{0} "
        );
        assert_eq!(escape("τ1"), "τ1");
    }

    #[test]
    fn cells_keep_exact_numbers() {
        let mut table = Table::new("c", &["task", "max"]);
        table.row(vec![Cell::Head("t<".to_owned()), Cell::Time(139_000_123)]);
        let html = table.to_html();
        assert!(
            html.contains("<th scope=\"row\">t&lt;</th><td><data value=\"139000123\">139 ms</data></td>"),
            "{html}"
        );
        assert!(html.contains("<th scope=\"col\">max</th>"), "{html}");
    }
}
