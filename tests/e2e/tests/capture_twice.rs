//! Two captures into one file: the second is refused, and the first keeps what it has.

use std::path::Path;

use netloom_tests_e2e::capturing::{Capturing, read_pcapng};
use netloom_tests_e2e::machine;

const LAB: &str = "
name: twice
pool: {ipv6: none}
nodes: {a: {sysctls: &quiet {net.ipv6.conf.all.disable_ipv6: 1}}, b: {sysctls: *quiet}}
links: [[a, b]]
";

#[test]
fn a_second_capture_into_a_file_or_a_row_is_refused_until_the_first_is_gone() {
    let machine = machine!();
    machine.up(LAB);
    machine.answers("a", "b");
    for rotated in ["", "--files 2 --rotate-size 1MiB"] {
        let args = format!("a:eth0 {rotated}");
        let first = Capturing::start(&machine, args.trim_end(), "one.pcapng");
        let file = machine.scratch().path().join("one.pcapng");
        let short = |file: &Path| {
            let mut words: Vec<&str> = "capture b -q -d 1ms".split(' ').collect();
            words.extend(rotated.split_ascii_whitespace());
            machine.netloom(words).args(["-w".as_ref(), file.as_os_str()]).finish()
        };
        let refused = short(&file).code(1);
        let text = refused.errors();
        assert!(text.contains("one") && text.contains("is writing to it"), "{text}");
        machine.datagrams("a", "b", 0, 100);
        let account = first.stop();
        account.closes();
        let files = netloom_tests_e2e::capturing::files(machine.scratch().path(), "one");
        assert_eq!(files.len(), 1, "{files:?}");
        let numbers: Vec<u32> = (0..100).collect();
        assert_eq!(read_pcapng(&files[0]).numbers("a:eth0"), numbers);
        // One that is killed is in nobody's way.
        Capturing::start(&machine, args.trim_end(), "killed.pcapng").kill();
        short(&machine.scratch().path().join("killed.pcapng")).code(0);
        std::fs::remove_file(&files[0]).expect("remove the file");
    }
    machine.down();
}
