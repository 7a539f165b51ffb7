//! Where in its file a composition is wrong.

use super::CompositionError;
use serde::Deserialize;
use toml::Spanned;

/// What is wrong with a composition, and where.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {why}")]
pub struct Misplaced {
    /// The file, as its user calls it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub why: CompositionError,
}

impl Misplaced {
    /// The text is no composition.
    pub(super) fn in_form(error: &toml::de::Error, text: &str, file: &str) -> Self {
        let message = error.message().trim().replace('\n', "; ");
        Self {
            file: file.to_owned(),
            line: line(text, error.span().map_or(0, |span| span.start)),
            why: CompositionError::Form(message),
        }
    }

    /// The composition cannot be run: the line of whoever is to blame.
    pub(super) fn of(why: CompositionError, text: &str, file: &str) -> Self {
        // It was read before.
        let places: Places = toml::from_str(text).unwrap_or_default();
        let at = places.of(&why).unwrap_or(0);
        Self {
            file: file.to_owned(),
            line: line(text, at),
            why,
        }
    }
}

/// The line of an offset, from 1.
fn line(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    1 + before.filter(|byte| *byte == b'\n').count()
}

/// What in the file has a name, and the limit.
#[derive(Debug, Default, Deserialize)]
struct Places {
    name: Option<Spanned<String>>,
    transient: Option<Limit>,
    #[serde(default, rename = "component")]
    components: Vec<Named>,
    #[serde(default, rename = "thread")]
    threads: Vec<Named>,
    #[serde(default, rename = "class")]
    classes: Vec<Named>,
    #[serde(default, rename = "reservation")]
    reservations: Vec<Named>,
}

#[derive(Debug, Deserialize)]
struct Limit {
    limit: Spanned<String>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: Spanned<String>,
}

impl Places {
    /// Where something is wrong.
    fn of(&self, why: &CompositionError) -> Option<usize> {
        match why {
            CompositionError::Form(_) => None,
            CompositionError::Twice(name) => self.named(name).max(),
            CompositionError::Circle(name)
            | CompositionError::Range { name, .. }
            | CompositionError::Unknown { by: name, .. }
            | CompositionError::UnknownClass { by: name, .. } => self.named(name).min(),
            CompositionError::Limit { .. } => Some(self.transient.as_ref()?.limit.span().start),
        }
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = usize> + 'a {
        let tables = [&self.components, &self.threads, &self.classes, &self.reservations];
        let names = tables.into_iter().flatten().map(|named| &named.name).chain(&self.name);
        names
            .filter(move |found| found.get_ref() == name)
            .map(|found| found.span().start)
    }
}

#[cfg(test)]
mod tests {
    use crate::composition::Composition;

    const HEAD: &str = "name = \"test\"\n[transient]\nlimit = \"64KiB\"\n";

    fn wrong(text: &str) -> String {
        Composition::parse(text, "a.toml").expect_err("it is wrong").to_string()
    }

    fn component(name: &str, more: &str) -> String {
        format!("[[component]]\nname = \"{name}\"\nobject = \"x.so\"\nstack = {{ size = \"16KiB\" }}\n{more}")
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let two = |more: &str| component("a", "") + &component("b", more);
        for (text, expected) in [
            ("x = 1\n".to_owned(), "a.toml:4: unknown field `x`"),
            ("[[component]\n".to_owned(), "a.toml:4: "),
            (two("calls = 3\n"), "a.toml:12: invalid type"),
            (two("calls = [\"b\"]\n"), "a.toml:9: calls lead from `b` back"),
            (two("calls = [\"c\"]\n"), "a.toml:9: `b` names the component `c`"),
            (two("classes = [\"c\"]\n"), "a.toml:9: `b` names the class `c`"),
            (component("a", "") + &component("a", ""), "a.toml:9: `a` stands twice"),
            (component("a", "contexts = 9\n"), "a.toml:5: `a`: `contexts` is 1 to 8"),
            (
                component("a", "cbuf = { size = \"1MiB\" }\n"),
                "a.toml:3: minima and reservations",
            ),
        ] {
            let said = wrong(&format!("{HEAD}{text}"));
            assert!(said.starts_with(expected), "{text}: {said}");
        }
        let said = wrong(&format!("component = []\n{HEAD}"));
        assert!(
            said.starts_with("a.toml:2: `test`: a composition has 1 to 32 components"),
            "{said}"
        );
    }
}
