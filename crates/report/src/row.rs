//! Rows of numbers: a structure, its fields as a table, and how it is filled, from one declaration.

/// One number of a row.
#[derive(Debug)]
pub struct Field<T> {
    /// The field's name, as documents write it.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// What it means, in a sentence. Its text begins with a blank, as that of a comment.
    help: &'static str,
    /// Its value.
    pub read: fn(&T) -> u64,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Pages on a list.
    Pages,
    /// Frames of memory.
    Frames,
}

impl Unit {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Frames => "frames",
        }
    }
}

impl<T> Field<T> {
    /// A number, with the text of the comment that explains it.
    #[must_use]
    pub const fn new(name: &'static str, unit: Unit, help: &'static str, read: fn(&T) -> u64) -> Self {
        Self { name, unit, help, read }
    }

    /// What it means, in a sentence.
    #[must_use]
    pub fn help(&self) -> &'static str {
        self.help.trim_start()
    }
}

/// Declares a row of numbers that is filled from a picture of the core's: the structure, its fields as `FIELDS`, and
/// the conversion. A field's comment is its help in metrics too.
macro_rules! row {
    (
        $(#[$attribute:meta])*
        pub struct $row:ident from $view:ident {
            $(#[doc = $help:literal] $(#[serde($serde:ident)])? $field:ident: $unit:ident,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $row {
            $(#[doc = $help] $(#[serde($serde)])? pub $field: u64,)*
        }

        impl $row {
            /// Its numbers, in the order in which documents have them.
            pub const FIELDS: &'static [$crate::row::Field<Self>] = &[
                $($crate::row::Field::new(stringify!($field), $crate::row::Unit::$unit, $help, |row| row.$field),)*
            ];
        }

        impl From<&$view> for $row {
            fn from(view: &$view) -> Self {
                Self {
                    $($field: u64::from(view.$field.get()),)*
                }
            }
        }
    };
}
pub(crate) use row;
