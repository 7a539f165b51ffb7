//! What-if: would a reservation be admitted, and what would have to give.

use super::build::kind_name;
use crate::control::{Peer, Refused};
use crate::view::{EngineView, ReservationRow};
use freehold_core::limits::ReservationKind;
use freehold_core::units::ByteLen;
use freehold_protocol::message::Refusal;
use freehold_report::what_if::WhatIf;

/// Judges `30MiB` or `30MiB firm` for `peer`.
pub(super) fn judge(view: &EngineView, peer: &Peer, target: &str) -> Result<WhatIf, Refused> {
    let (frames, kind) = parse(target).ok_or_else(|| {
        let text = format!("{target:?} is not a size with `hard` or `firm` behind it, such as `30MiB firm`");
        Refused::new(Refusal::Unknown, text)
    })?;
    let pool = &view.pool;
    let total = u64::from(pool.total.get());
    let available = total.saturating_sub(u64::from(pool.committed.get()));
    let quota = u64::from(peer.rights.frames.get());
    let missing = frames.saturating_sub(available);
    let mut gives = Vec::new();
    if missing > 0 {
        gives.extend(reductions(view, missing));
        gives.push(format!("or enlarge the pool by {missing} frames (serve --pool)"));
    }
    if frames > quota {
        let user = peer.user;
        gives.push(format!(
            "user {user} may reserve {quota} frames (serve --allow {user}=SIZE)"
        ));
    }
    let admitted = frames > 0 && gives.is_empty();
    let to_gather = if admitted {
        frames.saturating_sub(u64::from(pool.free.get()))
    } else {
        0
    };
    let mut text = vec![format!(
        "{frames} frames ({}): {}",
        kind_name(kind),
        if admitted {
            "would be admitted"
        } else {
            "would be refused"
        }
    )];
    text.push(format!(
        "{available} of the pool's {total} frames are promised to nobody"
    ));
    if to_gather > 0 {
        text.push(format!(
            "{to_gather} of them are lent or used without a reservation now and would be taken back first"
        ));
    }
    text.extend(gives.iter().map(|give| format!("what would have to give: {give}")));
    Ok(WhatIf {
        frames,
        kind: kind_name(kind).to_owned(),
        admitted,
        to_gather,
        available,
        missing,
        gives,
        text,
    })
}

/// The reservations with the most frames that they do not use, until they are enough.
fn reductions(view: &EngineView, missing: u64) -> Vec<String> {
    let mut rows: Vec<&ReservationRow> = view.reservations.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.lists.free));
    let mut found = 0;
    let mut gives = Vec::new();
    for row in rows {
        if found >= missing {
            break;
        }
        let (free, capacity) = (row.lists.free.get(), row.lists.capacity.get());
        found += u64::from(capacity);
        gives.push(format!(
            "{} has {capacity} frames, of which {free} are free now",
            row.name
        ));
    }
    gives
}

/// `30MiB`, `30MiB hard`, `30MiB firm`: frames, rounded up.
fn parse(target: &str) -> Option<(u64, ReservationKind)> {
    let mut words = target.split_whitespace();
    let size = words.next()?;
    let kind = match words.next() {
        None | Some("hard") => ReservationKind::Hard,
        Some("firm") => ReservationKind::Firm,
        Some(_) => return None,
    };
    if words.next().is_some() {
        return None;
    }
    let digits = size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len());
    let (number, unit) = size.split_at(digits);
    let unit = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1_u64 << 30,
        _ => return None,
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(unit)?;
    let pages = ByteLen::new(bytes).to_pages()?;
    Some((u64::from(pages.get()), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed_strictly() {
        assert_eq!(parse("30MiB"), Some((7_680, ReservationKind::Hard)));
        assert_eq!(parse("30MiB firm"), Some((7_680, ReservationKind::Firm)));
        assert_eq!(parse("4097B hard"), Some((2, ReservationKind::Hard)));
        for bad in [
            "",
            "x",
            "30MB",
            "30 MiB",
            "30MiB soft",
            "30MiB firm x",
            "-1",
            "99999999999GiB",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
