//! What a program that had too little memory is told at its end.

use freehold_core::units::FrameCount;
use freehold_report::status::StoreStatus;

use crate::enough::Enough;
use crate::output;

/// Pages that came back and are not worth a word.
const FEW: u64 = 100;

/// Says how many pages came back from the store of this command's own server, if many did, and which size would have
/// kept them.
pub(super) fn tell(store: &StoreStatus, reserve: FrameCount) {
    if let Some(line) = line(store, reserve) {
        output::note(&line);
    }
}

fn line(store: &StoreStatus, reserve: FrameCount) -> Option<String> {
    let back = Some(store.reads).filter(|back| *back > FEW)?;
    let enough = Enough::of(u64::from(reserve.get()), store.pages_peak);
    Some(format!(
        "freehold: {back} pages came back from the store, which waits: --reserve {}MiB would have kept them",
        enough.mebibytes()
    ))
}

#[cfg(test)]
mod tests {
    use super::{StoreStatus, line};
    use freehold_core::units::FrameCount;

    #[test]
    fn who_was_short_is_told_how_much_would_do() {
        let store = |reads: u64| StoreStatus {
            reads,
            pages_peak: 1_500,
            ..StoreStatus::default()
        };
        let reserve = FrameCount::new(1_024);
        assert_eq!(line(&store(3), reserve), None);
        let said = line(&store(5_000), reserve).unwrap();
        assert!(
            said.contains("5000 pages came back") && said.contains("--reserve 10MiB"),
            "{said}"
        );
    }
}
