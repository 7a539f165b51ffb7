//! Numbers that are whole are written whole: `3328`, not `3328.0`.

use serde::Serializer;

/// 2⁵³: whole numbers up to here are exact in an `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The whole number this is, if it is one.
fn whole(number: f64) -> Option<i64> {
    let exact = number.fract() == 0.0 && number.abs() <= EXACT;
    #[allow(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
    exact.then_some(number as i64)
}

pub(super) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match whole(*number) {
        Some(whole) => serializer.serialize_i64(whole),
        None => serializer.serialize_f64(*number),
    }
}

pub(super) fn serialize_option<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => serialize(number, serializer),
        None => serializer.serialize_none(),
    }
}

/// For a table: whole, or to three places.
pub(super) fn show(number: f64) -> String {
    whole(number).map_or_else(|| format!("{number:.3}"), |whole| whole.to_string())
}
