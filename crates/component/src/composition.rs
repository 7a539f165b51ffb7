//! The file of a composition.

use crate::composition::places::Misplaced;
use crate::manager::MOST_OTHERS;
use freehold_core::transient;
use freehold_linux::PAGE_SIZE;
use freehold_tmem::job;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) mod places;
mod thread;

pub(crate) use thread::Thread;

/// Components of a composition, at most.
const MOST: usize = 32;

/// A composition cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum CompositionError {
    /// The file is not of this form: what is wrong.
    #[error("{0}")]
    Form(String),
    /// Two components or two threads have the same name.
    #[error("`{0}` stands twice")]
    Twice(String),
    /// A component that is called, or a thread's, is not there.
    #[error("`{by}` names the component `{name}`, which is not there")]
    Unknown {
        /// Who names it.
        by: String,
        /// The name.
        name: String,
    },
    /// A class of a component's jobs is not there.
    #[error("`{by}` names the class `{name}`, which is not there")]
    UnknownClass {
        /// Who names it.
        by: String,
        /// The name.
        name: String,
    },
    /// Calls that lead back: a thread could wait for itself.
    #[error("calls lead from `{0}` back to it: a call could wait for itself")]
    Circle(String),
    /// A number outside its range.
    #[error("`{name}`: {what}")]
    Range {
        /// The component or thread.
        name: String,
        /// The range.
        what: &'static str,
    },
    /// The components' minima and reservations together are more than the limit.
    #[error(
        "minima and reservations take {needed} bytes, more than the limit of {limit}: raise `limit`, or lower them"
    )]
    Limit {
        /// Bytes of the minima and reservations.
        needed: u64,
        /// The limit.
        limit: u64,
    },
}

/// A size in bytes, written as `64KiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Size(pub(crate) u64);

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        freehold_scenario::parse_size(&text).map(|size| Self(size.get()))
    }
}

/// A time, written as `50ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub(crate) Duration);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        freehold_scenario::parse_time(&text).map(|time| Self(Duration::from_nanos(time.get())))
    }
}

/// A policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// Algorithm 1 of paper 004.
    Tmem,
    /// See [`transient::Policy::Minimum`].
    Min,
    /// See [`transient::Policy::Maximum`].
    Max,
    /// See [`transient::Policy::Static`].
    Static,
    /// See [`transient::Policy::Fair`].
    Fair,
    /// See [`transient::Policy::Greedy`].
    Greedy,
    /// See [`transient::Policy::Demand`].
    Demand,
}

impl PolicyName {
    /// The names, as they are written.
    pub const ALL: [&'static str; 7] = ["tmem", "min", "max", "static", "fair", "greedy", "demand"];

    /// The core's.
    #[must_use]
    pub fn policy(self) -> transient::Policy {
        match self {
            Self::Tmem => transient::Policy::Tardiness,
            Self::Min => transient::Policy::Minimum,
            Self::Max => transient::Policy::Maximum,
            Self::Static => transient::Policy::Static,
            Self::Fair => transient::Policy::Fair,
            Self::Greedy => transient::Policy::Greedy,
            Self::Demand => transient::Policy::Demand,
        }
    }
}

impl std::str::FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = serde_json::from_value(serde_json::Value::String(text.to_owned()));
        parsed.map_err(|_| format!("no policy `{text}`: there are {}", Self::ALL.join(", ")))
    }
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composition {
    /// What it is called.
    pub name: String,
    /// The memory that components share.
    pub transient: Transient,
    /// The components.
    #[serde(rename = "component")]
    pub components: Vec<Component>,
    /// Threads that do jobs.
    #[serde(rename = "thread", default)]
    pub threads: Vec<Thread>,
    /// Jobs that components do on their own.
    #[serde(rename = "class", default)]
    pub classes: Vec<Class>,
    /// Others that want memory.
    #[serde(rename = "reservation", default)]
    pub reservations: Vec<Reservation>,
}

/// `[transient]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transient {
    /// Bytes of all units together, at most.
    pub limit: Size,
    /// Who gets them.
    #[serde(default = "tmem")]
    pub policy: PolicyName,
    /// How often that is looked at.
    #[serde(default = "quarter")]
    pub period: Time,
}

/// `[[component]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// What it is called.
    pub name: String,
    /// Its object; relative to the file of the composition.
    pub object: PathBuf,
    /// The CPU on which it runs, and on which the threads of the composition call it; any if left out.
    pub cpu: Option<usize>,
    /// Threads for each component that calls it.
    #[serde(default = "one")]
    pub contexts: usize,
    /// How long a caller, or who asks for a unit, waits at most.
    #[serde(default = "bound")]
    pub bound: Time,
    /// Stacks for calls.
    pub stack: Units,
    /// Buffers.
    pub cbuf: Option<Units>,
    /// Components that it calls, in the order of its numbers.
    #[serde(default)]
    pub calls: Vec<String>,
    /// Whether it is started again when it dies.
    #[serde(default = "yes")]
    pub restart: bool,
    /// Classes of its own jobs, in the order of its numbers.
    #[serde(default)]
    pub classes: Vec<String>,
    /// Whether it is killed, as a fault of it would, when it holds a unit, or a call, past the bound of who waits
    /// for it.
    #[serde(default)]
    pub restart_hung: bool,
}

/// `[[class]]`: jobs that components begin and end themselves, such as answers to requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// What it is called.
    pub name: String,
    /// How long one may take; none is late if left out.
    pub target: Option<Time>,
}

/// `[[reservation]]`: a hard reservation of the same memory, which takes back what units have borrowed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// What it is called.
    pub name: String,
    /// Its memory, which is locked while it lasts.
    pub size: Size,
    /// From the beginning of the run until it comes.
    pub after: Time,
    /// How long it lasts; to the end of the run if left out.
    pub lasts: Option<Time>,
}

/// Units of one kind.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// Bytes of one.
    pub size: Size,
    /// Units that it always has: what one call holds at once.
    #[serde(default = "one")]
    pub minimum: usize,
    /// Units that it may have.
    #[serde(default = "many")]
    pub most: usize,
}

fn tmem() -> PolicyName {
    PolicyName::Tmem
}

fn quarter() -> Time {
    Time(Duration::from_millis(250))
}

fn bound() -> Time {
    Time(Duration::from_millis(100))
}

fn one() -> usize {
    1
}

fn many() -> usize {
    32
}

fn yes() -> bool {
    true
}

impl Units {
    fn fit(&self) -> bool {
        (1..=1024).contains(&self.most) && (1..=self.most).contains(&self.minimum) && (1..=4096).contains(&self.pages())
    }

    /// Pages of one.
    pub(crate) fn pages(&self) -> usize {
        usize::try_from(self.size.0).unwrap_or(usize::MAX).div_ceil(PAGE_SIZE)
    }
}

impl Reservation {
    /// Its pages.
    pub(crate) fn pages(&self) -> usize {
        usize::try_from(self.size.0).unwrap_or(usize::MAX).div_ceil(PAGE_SIZE)
    }
}

impl Composition {
    /// Reads and checks a composition.
    ///
    /// # Errors
    /// What is wrong with it, and in which line; `file` is named there.
    pub fn parse(text: &str, file: &str) -> Result<Self, Misplaced> {
        let composition: Self = toml::from_str(text).map_err(|error| Misplaced::in_form(&error, text, file))?;
        match composition.check() {
            Ok(()) => Ok(composition),
            Err(why) => Err(Misplaced::of(why, text, file)),
        }
    }

    /// The place of a component.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.components.iter().position(|component| component.name == name)
    }

    /// Names of all whose jobs are counted, by number from 1 on: threads, then classes.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = String> + '_ {
        let threads = self.threads.iter().map(|thread| thread.name.clone());
        threads.chain(self.classes.iter().map(|class| class.name.clone()))
    }

    /// The number of a class's jobs, and the class.
    pub(crate) fn class(&self, name: &str) -> Option<(u32, &Class)> {
        let at = self.classes.iter().position(|class| class.name == name)?;
        let number = u32::try_from(self.threads.len() + at + 1).ok()?;
        Some((number, &self.classes[at]))
    }

    /// Components, each after all that it calls.
    ///
    /// # Errors
    /// [`CompositionError::Circle`].
    pub(crate) fn callees_first(&self) -> Result<Vec<usize>, CompositionError> {
        let mut order = Vec::new();
        while order.len() < self.components.len() {
            let ready = |at: &usize| {
                let calls = &self.components[*at].calls;
                !order.contains(at)
                    && calls
                        .iter()
                        .all(|name| self.place(name).is_none_or(|place| order.contains(&place)))
            };
            match (0..self.components.len()).find(ready) {
                Some(next) => order.push(next),
                None => {
                    let left = (0..self.components.len()).find(|at| !order.contains(at)).unwrap_or(0);
                    return Err(CompositionError::Circle(self.components[left].name.clone()));
                }
            }
        }
        Ok(order)
    }

    fn check(&self) -> Result<(), CompositionError> {
        let range = |name: &str, what| {
            Err(CompositionError::Range {
                name: name.to_owned(),
                what,
            })
        };
        twice(self.components.iter().map(|component| &component.name))?;
        twice(self.threads.iter().map(|thread| &thread.name))?;
        twice(self.jobs().collect::<Vec<_>>().iter())?;
        twice(self.reservations.iter().map(|reservation| &reservation.name))?;
        let empty = self.reservations.iter().find(|reservation| reservation.size.0 == 0);
        if let Some(empty) = empty {
            return range(&empty.name, "a reservation has at least one byte");
        }
        if self.reservations.len() > MOST_OTHERS {
            return range(&self.name, "a composition has at most 16 reservations");
        }
        if !(1..=MOST).contains(&self.components.len()) || self.jobs().count() > job::MOST {
            return range(
                &self.name,
                "a composition has 1 to 32 components, and at most 64 threads and classes",
            );
        }
        for component in &self.components {
            for name in &component.calls {
                self.known(&component.name, name)?;
            }
            let unknown = component.classes.iter().find(|name| self.class(name).is_none());
            if let Some(name) = unknown {
                return Err(CompositionError::UnknownClass {
                    by: component.name.clone(),
                    name: name.clone(),
                });
            }
            if !std::iter::once(&component.stack).chain(&component.cbuf).all(Units::fit) {
                return range(
                    &component.name,
                    "units have 1 byte to 16 MiB, a minimum from 1 on, and at most 1024 units",
                );
            }
            if !(1..=8).contains(&component.contexts) {
                return range(&component.name, "`contexts` is 1 to 8");
            }
        }
        for thread in &self.threads {
            self.known(&thread.name, &thread.component)?;
            if let Some(what) = thread.wrong_range() {
                return range(&thread.name, what);
            }
        }
        self.callees_first()?;
        self.check_minima()
    }

    fn check_minima(&self) -> Result<(), CompositionError> {
        let kinds = self
            .components
            .iter()
            .flat_map(|component| std::iter::once(&component.stack).chain(&component.cbuf));
        let pages: usize = kinds.map(|units| units.minimum * units.pages()).sum();
        let others = self.reservations.iter().map(Reservation::pages);
        let pages = others.fold(pages, usize::saturating_add);
        let (needed, limit) = (pages.saturating_mul(PAGE_SIZE) as u64, self.transient.limit.0);
        if needed > limit {
            return Err(CompositionError::Limit { needed, limit });
        }
        Ok(())
    }

    fn known(&self, by: &str, name: &str) -> Result<(), CompositionError> {
        match self.place(name) {
            Some(_) => Ok(()),
            None => Err(CompositionError::Unknown {
                by: by.to_owned(),
                name: name.to_owned(),
            }),
        }
    }
}

fn twice<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), CompositionError> {
    let mut names: Vec<&String> = names.collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(CompositionError::Twice(pair[0].clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Composition, CompositionError};

    fn file(limit: &str, calls: &str) -> String {
        let one = |name: &str, calls: &str| {
            format!(
                "[[component]]\nname = \"{name}\"\nobject = \"{name}.so\"\nstack = {{ size = \"16KiB\" }}\n\
                 calls = [{calls}]\n"
            )
        };
        let head = format!("name = \"test\"\n[transient]\nlimit = \"{limit}\"\n");
        head + &one("a", "\"b\"") + &one("b", calls)
    }

    #[test]
    fn circles_and_names_and_minima_are_checked() {
        let order = Composition::parse(&file("1MiB", ""), "a.toml")
            .map(|composition| composition.callees_first().unwrap_or_default());
        assert_eq!(order.ok(), Some(vec![1, 0]));
        let error = |limit: &str, calls: &str| Some(Composition::parse(&file(limit, calls), "a.toml").err()?.why);
        assert!(matches!(error("1MiB", "\"a\""), Some(CompositionError::Circle(_))));
        assert!(matches!(error("1MiB", "\"b\""), Some(CompositionError::Circle(_))));
        assert!(matches!(error("1MiB", "\"c\""), Some(CompositionError::Unknown { .. })));
        assert!(matches!(
            error("31KiB", ""),
            Some(CompositionError::Limit { needed: 32_768, .. })
        ));
        assert!(matches!(error("1.5MiB", ""), Some(CompositionError::Form(_))));
    }
}
