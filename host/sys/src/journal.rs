//! Log lines of an unattended process: on standard error, which may be a file.
//!
//! `eprintln!` panics if standard error cannot be written, as on a full disk, and would end a
//! process that a lab depends on. Here a line that cannot be written is only lost.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line, if it can be written.
pub fn line(words: Arguments<'_>) {
    let mut text = words.to_string();
    text.push('\n');
    // One write, so that lines of several threads do not mix; a failure could not be reported anywhere.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    #[test]
    #[ignore = "helper: started by the test below"]
    fn speaks() {
        super::line(format_args!("netloom: something happened"));
        println!("went on");
    }

    #[test]
    fn a_full_disk_ends_nobody() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let out = netloom_kit::again(&speaks).stderr(full).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(said.contains("went on") && out.status.success(), "{said}");
        let out = netloom_kit::again(&speaks).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stderr), "netloom: something happened\n");
    }
}
