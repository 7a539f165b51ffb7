//! Objects that C holds by pointer.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Problem;

/// A type that C knows by name only, and what is behind its pointers.
pub(crate) trait Object {
    /// What is behind.
    type Value;
    /// Marks memory as holding such an object.
    const TAG: u64;
    /// What it is called in errors.
    const NAME: &'static str;
}

/// What a pointer given to C really points to. The tag comes first in all of them.
#[repr(C)]
struct Tagged<T> {
    tag: AtomicU64,
    value: T,
}

/// Hands an object over to C, in `*out`, which was checked by [`place`].
pub(crate) fn give<O: Object>(value: O::Value, out: &mut *mut O) {
    let tag = AtomicU64::new(O::TAG);
    *out = Box::into_raw(Box::new(Tagged { tag, value })).cast();
}

/// Where an object is to be handed over: null at first.
///
/// # Safety
/// `out` is null or points to a pointer of the caller's.
pub(crate) unsafe fn place<'a, O: Object>(out: *mut *mut O) -> Result<&'a mut *mut O, Problem> {
    if out.is_null() || !out.is_aligned() {
        return Err(Problem::invalid(format!("there is no place for the {}", O::NAME)));
    }
    // SAFETY: not null, aligned, and a pointer of the caller's by his promise.
    unsafe {
        out.write(std::ptr::null_mut());
        Ok(&mut *out)
    }
}

/// The object behind a pointer.
///
/// # Safety
/// `pointer` is null or was given out by [`give`], and nobody ends the object while the borrow lives.
pub(crate) unsafe fn borrow<'a, O: Object>(pointer: *const O) -> Result<&'a O::Value, Problem> {
    // SAFETY: the caller's promise.
    let found: &Tagged<O::Value> = unsafe { checked::<O>(pointer) }?;
    Ok(&found.value)
}

/// The object behind a pointer, unless that is null.
///
/// # Safety
/// As [`borrow`].
pub(crate) unsafe fn borrow_if_any<'a, O: Object>(pointer: *const O) -> Result<Option<&'a O::Value>, Problem> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { borrow(pointer) }.map(Some)
}

/// Takes an object back from C; none for null.
///
/// # Safety
/// As [`borrow`], and nobody uses the object any more.
pub(crate) unsafe fn take<O: Object>(pointer: *mut O) -> Result<Option<O::Value>, Problem> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let found = unsafe { checked::<O>(pointer) }?;
    if found.tag.swap(0, Ordering::AcqRel) != O::TAG {
        return Err(gone::<O>());
    }
    // SAFETY: made by `give` from a box of this type, as the tag says, and the swap gave it to this call alone.
    let owned = unsafe { Box::from_raw(pointer.cast::<Tagged<O::Value>>()) };
    Ok(Some(owned.value))
}

/// # Safety
/// As [`borrow`].
unsafe fn checked<'a, O: Object>(pointer: *const O) -> Result<&'a Tagged<O::Value>, Problem> {
    let found = pointer.cast::<Tagged<O::Value>>();
    if found.is_null() {
        return Err(Problem::invalid(format!("the {} is null", O::NAME)));
    }
    if !found.is_aligned() {
        return Err(gone::<O>());
    }
    // SAFETY: an object of this library by the caller's promise, all of which begin with their tag; only that is
    // looked at until it has proved the type.
    let tag = unsafe { &*found.cast::<AtomicU64>() }.load(Ordering::Acquire);
    if tag != O::TAG {
        return Err(gone::<O>());
    }
    // SAFETY: the tag says that it is such an object, and the caller that it lives on.
    Ok(unsafe { &*found })
}

fn gone<O: Object>() -> Problem {
    Problem::invalid(format!("this is no {}, or it has been ended", O::NAME))
}

/// Says what is behind a type that C knows by name only. (The type itself is declared where the header's generator,
/// which looks into no macro, can see it.)
macro_rules! object {
    ($name:ident, $value:ty, $words:literal, $tag:literal) => {
        impl $crate::handle::Object for $name {
            type Value = $value;
            const TAG: u64 = u64::from_le_bytes(*$tag);
            const NAME: &'static str = $words;
        }
    };
}
pub(crate) use object;

#[cfg(test)]
mod tests {
    use super::{Object, borrow, borrow_if_any, give, place, take};

    struct One;
    struct Two;
    impl Object for One {
        type Value = String;
        const TAG: u64 = 1;
        const NAME: &'static str = "one";
    }
    impl Object for Two {
        type Value = u8;
        const TAG: u64 = 2;
        const NAME: &'static str = "two";
    }

    #[test]
    fn only_living_objects_of_the_right_kind_are_found() {
        let mut pointer: *mut One = std::ptr::dangling_mut();
        // SAFETY: the pointers are null, or to locals, or to objects given out here; none is used after its memory
        // has been given back.
        unsafe {
            let out = place(&raw mut pointer).unwrap();
            assert!(out.is_null());
            give("value".to_owned(), out);
            assert_eq!(borrow(pointer).unwrap(), "value");
            assert!(borrow::<One>(std::ptr::null()).is_err());
            assert!(borrow_if_any::<One>(std::ptr::null()).unwrap().is_none());
            assert!(borrow(pointer.cast::<Two>()).is_err());
            assert!(borrow(pointer.wrapping_byte_add(1)).is_err());
            assert!(take(pointer.cast::<Two>()).is_err());
            assert_eq!(take(pointer).unwrap().as_deref(), Some("value"));
            assert!(take::<One>(std::ptr::null_mut()).unwrap().is_none());
            assert!(place::<One>(std::ptr::null_mut()).is_err());
        }
    }
}
