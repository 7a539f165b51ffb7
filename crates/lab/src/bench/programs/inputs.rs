//! What the programs work on, made here so that it is the same everywhere.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::workload::{PYTHON, SERVER};
use crate::programs;

/// Seconds of film.
pub(super) fn seconds(quick: bool) -> u32 {
    4 * scale(quick)
}

fn scale(quick: bool) -> u32 {
    if quick { 1 } else { 4 }
}

/// Writes every input into `folder`.
///
/// # Errors
/// Those of writing.
pub(super) fn make(folder: &Path, quick: bool) -> io::Result<()> {
    let scale = scale(quick);
    fs::write(folder.join("lines"), lines(50_000 * scale))?;
    fs::write(folder.join("program.c"), program(150 * scale))?;
    fs::write(folder.join("work.sql"), sql(20_000 * scale))?;
    fs::write(folder.join("work.py"), PYTHON)?;
    fs::write(folder.join("server.py"), SERVER)?;
    if programs::is_installed("ffmpeg") && programs::is_installed("mplayer") {
        clip(&folder.join("clip.mpg"), seconds(quick))?;
    }
    Ok(())
}

fn lines(count: u32) -> String {
    let mut text = String::new();
    let mut state = 1u32;
    for number in 0..count {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:08x} {} word{}", state, state % 9973, number % 61);
    }
    text
}

fn program(functions: u32) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for number in 0..functions {
        let _ = writeln!(
            text,
            "int f{number}(int *a, int n) {{ int s = {number}; for (int i = 0; i < n; i++) {{ \
             s += a[i] * (i ^ {number}); \
             if (s % 7 == {}) s ^= a[n - i - 1]; }} return s > {number} ? s : -s; }}",
            number % 7
        );
    }
    text.push_str("int main(void) { int a[64]; memset(a, 3, sizeof a); int s = 0;\n");
    for number in 0..functions {
        let _ = writeln!(text, "s += f{number}(a, 64);");
    }
    text.push_str("printf(\"%d\\n\", s); return 0; }\n");
    text
}

fn sql(rows: u32) -> String {
    let mut text = String::from("create table t(a integer primary key, b text, c real);\nbegin;\n");
    for row in 0..rows {
        let value = u64::from(row) * 2_654_435_761 % 1_000_003;
        let _ = writeln!(text, "insert into t values({row}, 'row {value}', {value}.25);");
    }
    text.push_str(
        "commit;\ncreate index i on t(b);\nselect count(*), sum(c), min(b), max(b) from t;\n\
         select x.a, y.b from t x join t y on y.a = x.a * 7 % 1000 where x.c > 500000 order by x.b limit 500;\n\
         update t set b = b || '!' where a % 3 = 0;\nselect sum(length(b)) from t;\nvacuum;\npragma integrity_check;\n",
    );
    text
}

fn clip(path: &Path, seconds: u32) -> io::Result<()> {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args("-nostdin -loglevel error -y -f lavfi -i testsrc2=size=640x360:rate=30".split(' '));
    ffmpeg.arg("-t").arg(seconds.to_string());
    ffmpeg
        .args("-pix_fmt yuv420p -c:v mpeg2video -threads 1".split(' '))
        .arg(path);
    let status = ffmpeg.stdin(Stdio::null()).status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("ffmpeg could not make a clip: {status}")))
}
