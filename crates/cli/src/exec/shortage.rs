//! What a program that had too little memory is told at its end.

use freehold_client::{Observer, Question};
use freehold_core::units::FrameCount;
use serde_json::Value;

use freehold_command::output;

/// Pages that came back and are not worth a word.
const FEW: u64 = 100;
/// Bytes of a page, in KiB.
const PAGE: u64 = 4;

/// Says how many pages came back from the store of this command's own server, if many did, and which size would have
/// kept them.
pub(super) fn tell(observer: &Observer, reserve: FrameCount) {
    // A server that does not answer any more has nothing to say.
    let status = observer.ask(Question::Status, "").unwrap_or_default();
    let status: Value = serde_json::from_str(&status).unwrap_or_default();
    if let Some(line) = line(&status, reserve) {
        output::note(&line);
    }
}

/// The store in memory has a frame for each page that it ever held: so many more had been enough.
fn line(status: &Value, reserve: FrameCount) -> Option<String> {
    let store = &status["store"];
    let back = store["reads"].as_u64().filter(|back| *back > FEW)?;
    let out = store["frames"].as_u64()?;
    let enough = (u64::from(reserve.get()) + out) * PAGE;
    Some(format!(
        "freehold: {back} pages came back from the store, which waits: --reserve {}MiB would have kept them",
        enough.div_ceil(1024)
    ))
}

#[cfg(test)]
mod tests {
    use super::line;
    use freehold_core::units::FrameCount;
    use serde_json::json;

    #[test]
    fn who_was_short_is_told_how_much_would_do() {
        let status = |reads: u64| json!({"store": {"reads": reads, "frames": 1_500}});
        let reserve = FrameCount::new(1_024);
        assert_eq!(line(&status(3), reserve), None);
        assert_eq!(line(&json!(null), reserve), None);
        let said = line(&status(5_000), reserve).unwrap();
        assert!(
            said.contains("5000 pages came back") && said.contains("--reserve 10MiB"),
            "{said}"
        );
    }
}
