//! Names that others have chosen, as they may stand on terminals, in logs and in reports.

/// Text without a character that cannot be seen where it stands, moves what stands around it, or ends a line: each is
/// written as its number, as in `\u{202e}`. Those are the control characters, the format characters of Unicode
/// (category Cf: directions, zero width, tags), its separators of lines and paragraphs, and other characters without a
/// picture.
pub fn shown(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(|character| {
        let unseen = is_unseen(character);
        let number = unseen.then(|| character.escape_unicode());
        (!unseen)
            .then_some(character)
            .into_iter()
            .chain(number.into_iter().flatten())
    })
}

/// Whether a character has no picture of its own where it stands, or moves what stands around it.
#[must_use]
pub fn is_unseen(character: char) -> bool {
    // Most text has none beyond the first of these.
    character.is_control()
        || (character > '\u{ac}' && UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&character)))
}

/// Categories Cf, Zl and Zp of Unicode 16, and the characters that are to be ignored where they are not known.
const UNSEEN: [(char, char); 29] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{e000}', '\u{f8ff}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{13440}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
    ('\u{f0000}', '\u{ffffd}'),
    ('\u{100000}', '\u{10fffd}'),
    ('\u{10ffff}', '\u{10ffff}'),
];

#[cfg(test)]
mod tests {
    extern crate std;
    use super::{UNSEEN, is_unseen};

    fn shown(text: &str) -> std::string::String {
        super::shown(text).collect()
    }

    #[test]
    fn what_moves_or_hides_text_is_written_as_its_number() {
        assert_eq!(shown("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\u{a}b");
        assert_eq!(shown("evil\u{202e}gpj.exe"), "evil\\u{202e}gpj.exe");
        assert_eq!(shown("two\u{2028}lines\u{200b}"), "two\\u{2028}lines\\u{200b}");
        assert_eq!(shown("naïve Ω 内存 🙂 a\\b"), "naïve Ω 内存 🙂 a\\b");
        assert_eq!(shown("\u{85}\u{e0041}\u{feff}"), "\\u{85}\\u{e0041}\\u{feff}");
    }

    #[test]
    fn the_ranges_are_in_order_and_what_the_language_calls_unprintable_is_among_them() {
        assert!(UNSEEN.is_sorted_by(|one, other| one.1 < other.0));
        assert!(UNSEEN.iter().all(|(first, last)| first <= last));
        // Directions, marks and separators, by name.
        for unseen in "\u{200e}\u{200f}\u{061c}\u{2066}\u{2067}\u{2068}\u{2069}\u{2029}\u{2060}\u{180e}".chars() {
            assert!(is_unseen(unseen) && !unseen.escape_debug().eq([unseen]), "{unseen:?}");
        }
    }
}
