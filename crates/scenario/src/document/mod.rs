//! The scenario file: TOML with places, overrides, and the reader.

pub(crate) mod keys;
mod markdown;
mod read;
pub(crate) mod schema;
pub(crate) mod section;
mod set;
mod trace;
mod tree;

pub use markdown::tables_of_keys;

use crate::devices::{self, DeviceFile};
use crate::error::{Error, Fault, Place};
use crate::model::Scenario;
use crate::resolve::{PathNames, resolve};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use toml::de::DeTable;
use trace::Traces;
use tree::{Lines, Origin, Table, Value, get};

/// The largest scenario file, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The text of a file that people write, such as a scenario.
///
/// # Errors
/// The file cannot be read, is not UTF-8 or is larger than 16 MiB.
pub fn read_text(path: &Path) -> Result<String, Error> {
    let file = path.display().to_string();
    let cannot = |message: String| Error::new(Place::Unread { file: file.clone() }, "file", message);
    let opened = File::open(path).map_err(|error| cannot(format!("cannot be read: {error}")))?;
    let mut text = String::new();
    let read = opened.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| cannot(format!("cannot be read: {error}")))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(cannot("is larger than 16 MiB: nobody has written that".to_owned()));
    }
    Ok(text)
}

/// A scenario file that is TOML, to be overridden and then read.
///
/// ```
/// use freehold_scenario::Document;
/// let text = "name = \"demo\"\nduration = \"1s\"\nmemory.pool = \"1MiB\"\n";
/// let mut document = Document::parse(text, "demo.toml")?;
/// document.apply_set("memory.pool=2MiB")?;
/// assert_eq!(document.scenario()?.pool.get(), 512);
/// let error = document.apply_set("memory.pole=2MiB").unwrap_err();
/// assert!(error.to_string().starts_with("--set memory.pole=2MiB: memory.pole: there is no key `pole`"));
/// # Ok::<(), freehold_scenario::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Document {
    file: String,
    root: Table,
    sets: Vec<String>,
    traces: &'static [(&'static str, &'static str)],
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is not UTF-8, is larger than 16 MiB or is not TOML.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = read_text(path)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads text. `file` is named in errors, and trace files are looked for beside it.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let lines = Lines::of(text);
        let refuse = |line, message: &str| {
            let place = Place::File {
                file: file.to_owned(),
                line,
            };
            Error::new(place, "syntax", message.trim().replace('\n', "; "))
        };
        let deepest = text
            .lines()
            .map(|line| line.bytes().filter(|byte| *byte == b'.').count())
            .max()
            .unwrap_or(0);
        if deepest > 4096 {
            return Err(refuse(1, "a line has more than 4096 dots: that is no scenario"));
        }
        let parsed = DeTable::parse(text).map_err(|error| {
            let line = lines.line(error.span().map_or(0, |span| span.start));
            refuse(line, &format!("this is not TOML: {}", error.message()))
        })?;
        let root = tree::table(parsed.get_ref(), &|offset| Origin::Line(lines.line(offset)));
        Ok(Self {
            file: file.to_owned(),
            root,
            sets: Vec::new(),
            traces: &[],
        })
    }

    /// The same document, its traces taken from these pairs of name and text, and only others from files.
    #[must_use]
    pub fn with_traces(self, traces: &'static [(&'static str, &'static str)]) -> Self {
        Self { traces, ..self }
    }

    /// Applies one override, `key=value`. The address is a path of keys, with names for regions, reservations and
    /// tasks and positions for accesses and locks: `task.tau1.access.0.amount=4MiB`. Quotes may be left out.
    ///
    /// # Errors
    /// There is no `=`, or no such key; the message lists what there is.
    pub fn apply_set(&mut self, set: &str) -> Result<(), Error> {
        let place = || Place::Set(set.to_owned());
        let Some((address, value)) = set.split_once('=') else {
            return Err(Error::new(
                place(),
                set,
                "has no `=`: write key=value, such as task.tau1.period=50ms",
            ));
        };
        let node = set::parse_value(value.trim(), Origin::Set(self.sets.len()));
        set::put(&mut self.root, keys::ROOT, "", address.trim(), node)
            .map_err(|fault| Error::new(place(), fault.path, fault.message))?;
        self.sets.push(set.to_owned());
        Ok(())
    }

    /// The scenario, if every rule holds.
    ///
    /// # Errors
    /// The first rule that does not hold, with file, line and key, or with the override to blame.
    pub fn scenario(&self) -> Result<Scenario, Error> {
        let directory = Path::new(&self.file).parent().unwrap_or(Path::new(""));
        let traces = Traces {
            directory,
            built_in: self.traces,
        };
        let scenario = read::scenario(&self.root, &traces).and_then(resolve);
        scenario.map_err(|fault| self.place(fault))
    }

    /// The devices, if it is a device file and every rule holds.
    pub(crate) fn devices(&self) -> Result<DeviceFile, Error> {
        devices::read(&self.root).map_err(|fault| self.place(fault))
    }

    /// Turns the paths of a fault into a place: an override that is involved, else the line of the key or of the
    /// table where it is missing.
    fn place(&self, fault: Fault) -> Error {
        let all = std::iter::once(&fault.path).chain(&fault.involved);
        let mut overridden = all.filter_map(|path| match tree::locate(&self.root, path) {
            (Some(Origin::Set(position)), true) => self.sets.get(position),
            _ => None,
        });
        let place = match (overridden.next(), tree::locate(&self.root, &fault.path).0) {
            (Some(set), _) => Place::Set(set.clone()),
            (None, Some(Origin::Line(line))) => Place::File {
                file: self.file.clone(),
                line,
            },
            (None, _) => Place::File {
                file: self.file.clone(),
                line: 1,
            },
        };
        Error::new(place, self.names().key(&fault.path), fault.message)
    }

    /// The names of all entries, for showing paths.
    fn names(&self) -> PathNames {
        let mut names = PathNames::default();
        for kind in ["region", "reservation", "task", "device", "component"] {
            let Some(Value::List(items)) = get(&self.root, kind).map(|node| &node.value) else {
                continue;
            };
            for item in items {
                let name = match &item.value {
                    Value::Table(table) => get(table, "name").map(|node| &node.value),
                    _ => None,
                };
                let name = if let Some(Value::Text(name)) = name {
                    name.clone()
                } else {
                    String::new()
                };
                names.push(kind, name);
            }
        }
        names
    }
}

impl Scenario {
    /// Reads a scenario file with overrides (`key=value`, see [`Document::apply_set`]).
    ///
    /// # Errors
    /// See [`Document::load`], [`Document::apply_set`] and [`Document::scenario`].
    pub fn load<S: AsRef<str>>(path: &Path, sets: &[S]) -> Result<Self, Error> {
        let mut document = Document::load(path)?;
        sets.iter().try_for_each(|set| document.apply_set(set.as_ref()))?;
        document.scenario()
    }

    /// Reads the text of a scenario file. `file` is named in errors, and trace files are looked for beside it.
    ///
    /// ```
    /// use freehold_scenario::Scenario;
    /// let error = Scenario::parse("name = \"x\"\nduration = \"0s\"\nmemory.pool = \"1MiB\"", "x.toml").unwrap_err();
    /// assert!(error.to_string().starts_with("x.toml:2: duration: is zero"));
    /// ```
    ///
    /// # Errors
    /// See [`Document::parse`] and [`Document::scenario`].
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        Document::parse(text, file)?.scenario()
    }
}
