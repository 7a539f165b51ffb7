//! A program of a higher real-time priority than the server's pager threads takes note of its children's ends, while
//! the server looks at those children.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use common::{compiled, freehold_under};
use freehold_linux::ThreadId;
use freehold_linux::sched::{self, Policy};

/// Children that end within this time have not been waited for in vain.
const PATIENCE: Duration = Duration::from_secs(60);
const RUNS: usize = 3;
const HIGHEST: [&str; 3] = ["chrt", "-r", "99"];

#[test]
fn a_program_before_the_pager_threads_learns_of_the_ends_of_its_children() {
    let Some(program) = compiled("reaper") else { return };
    let [chrt, class, priority] = HIGHEST;
    let allowed = Command::new(chrt).args([class, priority, "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return println!("NOT CHECKED: real-time priorities are not allowed here, or there is no chrt");
    }
    for _ in 0..RUNS {
        let mut child = freehold_under(&HIGHEST, &["exec", "--reserve", "3MiB", "--"])
            .arg(&program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || said.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let first = told.recv_timeout(PATIENCE).expect("it begins");
        let last = told.recv_timeout(PATIENCE);
        if last.is_err() {
            // It has a CPU for itself, and cannot be killed there.
            let thread = first.parse().ok().and_then(ThreadId::from_raw).expect("a number");
            sched::set_policy(thread, Policy::Other { nice: 0 }).expect("it is there");
        }
        let status = child.wait().expect("a child");
        assert_eq!((last.as_deref(), status.code()), (Ok("done"), Some(0)));
    }
}
