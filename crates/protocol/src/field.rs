//! Fields of a message: little-endian numbers, and text with its length before it. Reading is strict: a field that is
//! cut off, out of range or not UTF-8 refuses the message, and so do bytes left over.

use core::fmt;

/// The longest text of a field, in bytes.
pub const TEXT_LIMIT: usize = 1024;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The message ends inside a field.
    CutOff,
    /// Bytes follow the last field.
    LeftOver,
    /// Not this protocol's magic number.
    Magic,
    /// Another version of the protocol.
    Version {
        /// The version it says.
        theirs: u16,
    },
    /// No message of this kind.
    Kind {
        /// The kind it says.
        kind: u16,
    },
    /// The length in the header is not the message's.
    Length,
    /// A field holds none of its values.
    Value {
        /// Which field.
        field: &'static str,
    },
    /// A text is longer than [`TEXT_LIMIT`], or not UTF-8.
    Text {
        /// Which field.
        field: &'static str,
    },
    /// The buffer to write into is too small.
    NoRoom,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutOff => f.write_str("the message ends inside a field"),
            Self::LeftOver => f.write_str("bytes follow the last field"),
            Self::Magic => f.write_str("this is not the freehold protocol"),
            Self::Version { theirs } => write!(
                f,
                "version {theirs} of the protocol is not spoken here, version {} is: use programs of one release",
                crate::VERSION
            ),
            Self::Kind { kind } => write!(f, "no message has the kind {kind}"),
            Self::Length => f.write_str("the length in the header is not the message's"),
            Self::Value { field } => write!(f, "the field `{field}` holds none of its values"),
            Self::Text { field } => write!(f, "the field `{field}` is not a text of at most {TEXT_LIMIT} bytes"),
            Self::NoRoom => f.write_str("the buffer is too small for the message"),
        }
    }
}

impl core::error::Error for Malformed {}

/// Writes fields one after the other.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl<'a> Writer<'a> {
    /// Writes from the start of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, length: 0 }
    }

    /// Bytes written.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Appends bytes as they are.
    ///
    /// # Errors
    /// [`Malformed::NoRoom`].
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let end = self.length.checked_add(bytes.len()).ok_or(Malformed::NoRoom)?;
        let place = self.buffer.get_mut(self.length..end).ok_or(Malformed::NoRoom)?;
        place.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }
}

/// Reads fields one after the other.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not read yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// [`Malformed::CutOff`].
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        if count > self.rest.len() {
            return Err(Malformed::CutOff);
        }
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// [`Malformed::LeftOver`].
    pub fn end(self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed::LeftOver)
        }
    }
}

/// What can be a field of a message.
pub trait Field<'a>: Sized {
    /// Appends itself.
    ///
    /// # Errors
    /// [`Malformed::NoRoom`], or [`Malformed::Text`] where a text is too long.
    fn put(&self, writer: &mut Writer<'_>) -> Result<(), Malformed>;

    /// Reads itself; `name` is for the error.
    ///
    /// # Errors
    /// See [`Malformed`].
    fn get(reader: &mut Reader<'a>, name: &'static str) -> Result<Self, Malformed>;
}

macro_rules! number {
    ($($type:ty),*) => {
        $(impl<'a> Field<'a> for $type {
            fn put(&self, writer: &mut Writer<'_>) -> Result<(), Malformed> {
                writer.bytes(&self.to_le_bytes())
            }

            fn get(reader: &mut Reader<'a>, _name: &'static str) -> Result<Self, Malformed> {
                let bytes = reader.bytes(size_of::<$type>())?;
                bytes.try_into().map(<$type>::from_le_bytes).map_err(|_| Malformed::CutOff)
            }
        })*
    };
}

number!(u8, u16, u32, u64);

impl<'a> Field<'a> for bool {
    fn put(&self, writer: &mut Writer<'_>) -> Result<(), Malformed> {
        u8::from(*self).put(writer)
    }

    fn get(reader: &mut Reader<'a>, name: &'static str) -> Result<Self, Malformed> {
        match u8::get(reader, name)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Value { field: name }),
        }
    }
}

impl<'a> Field<'a> for &'a str {
    fn put(&self, writer: &mut Writer<'_>) -> Result<(), Malformed> {
        let length = u16::try_from(self.len()).unwrap_or(u16::MAX);
        if usize::from(length) > TEXT_LIMIT {
            return Err(Malformed::Text { field: "text" });
        }
        length.put(writer)?;
        writer.bytes(self.as_bytes())
    }

    fn get(reader: &mut Reader<'a>, name: &'static str) -> Result<Self, Malformed> {
        let length = usize::from(u16::get(reader, name)?);
        if length > TEXT_LIMIT {
            return Err(Malformed::Text { field: name });
        }
        core::str::from_utf8(reader.bytes(length)?).map_err(|_| Malformed::Text { field: name })
    }
}

/// Makes a structure a field: its own fields one after the other.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident : $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $type),*
        }

        $crate::field::carried!($name { $($field),* });
    };
}
pub(crate) use record;

/// Makes a structure from elsewhere a field: its own fields one after the other, all of them.
macro_rules! carried {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl<'a> $crate::field::Field<'a> for $name {
            fn put(&self, writer: &mut $crate::field::Writer<'_>) -> Result<(), $crate::field::Malformed> {
                $($crate::field::Field::put(&self.$field, writer)?;)*
                Ok(())
            }

            fn get(
                reader: &mut $crate::field::Reader<'a>,
                _name: &'static str,
            ) -> Result<Self, $crate::field::Malformed> {
                Ok(Self {
                    $($field: $crate::field::Field::get(reader, stringify!($field))?),*
                })
            }
        }
    };
}
pub(crate) use carried;

/// Makes an enum a field of one byte.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant),*
        }

        $crate::field::chosen!($name { $($variant = $value),* });
    };
}
pub(crate) use choice;

/// Makes an enum from elsewhere a field of one byte.
macro_rules! chosen {
    ($name:ident { $($variant:ident = $value:literal),* $(,)? }) => {
        impl<'a> $crate::field::Field<'a> for $name {
            fn put(&self, writer: &mut $crate::field::Writer<'_>) -> Result<(), $crate::field::Malformed> {
                let value: u8 = match self { $(Self::$variant => $value),* };
                $crate::field::Field::put(&value, writer)
            }

            fn get(
                reader: &mut $crate::field::Reader<'a>,
                name: &'static str,
            ) -> Result<Self, $crate::field::Malformed> {
                match <u8 as $crate::field::Field<'a>>::get(reader, name)? {
                    $($value => Ok(Self::$variant),)*
                    _ => Err($crate::field::Malformed::Value { field: name }),
                }
            }
        }
    };
}
pub(crate) use chosen;
