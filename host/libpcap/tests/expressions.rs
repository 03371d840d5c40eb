//! Expressions: libpcap's interpreter and ours say the same about every frame, for programs compiled
//! here and for the recorded ones.

use super::support;
use netloom_kit::{isolated, needs};
use netloom_libpcap::{
    Error, MOST_BOUNDED, MOST_WORDS, compile, compile_bounded, offline_filter, version,
};
use support::{frames, noise::Noise, recorded};

/// Where libpcap's interpreter is not as Linux: an offset that wraps, a shift by over 31 bits.
const NOT_AS_LINUX: [&str; 3] =
    ["ip[ether[14] - 60:2] != 0", "ip[20:2] << ip[9] != 0", "ether[14] >> ether[15] = 1"];

fn corpus() -> Vec<Vec<u8>> {
    [frames::corpus(), frames::runts()].concat()
}

#[test]
fn expressions_mean_the_same_to_all_interpreters() {
    needs!("libpcap", "protocols");
    let frames = corpus();
    let mut different = 0;
    for (expression, recorded) in recorded::programs() {
        let program = compile(&expression, recorded::SNAPLEN).unwrap();
        let mut kept = 0;
        for frame in &frames {
            // As if 8 bytes had been cut off.
            let wire = u32::try_from(frame.len()).unwrap() + 8;
            let verdict = program.run(frame, wire);
            let same = verdict == offline_filter(&program, frame, wire).unwrap();
            assert!(same || NOT_AS_LINUX.contains(&&*expression), "{expression}: {frame:02x?}");
            different += usize::from(!same);
            assert_eq!(verdict, recorded.run(frame, wire), "{expression}: {frame:02x?}");
            kept += usize::from(verdict != 0);
        }
        assert!(kept < frames.len(), "{expression} rejects nothing");
        // No frame is that long.
        assert!(kept > 0 || expression == "ether[40000:4] = 1", "{expression} keeps nothing");
    }
    assert!(different > 0, "libpcap has become as Linux");
}

#[test]
fn random_programs_mean_the_same_to_all_interpreters() {
    needs!("libpcap");
    let frames = corpus();
    let mut noise = Noise::new(2);
    let mut kept = 0;
    for round in 0..2000 {
        let insns = noise.program(8 + round % 60);
        // Where X + k wraps and where a shift by X is over 31 libpcap differs from Linux.
        if insns.iter().any(|insn| matches!(insn.code, 0x40 | 0x48 | 0x50 | 0x6c | 0x7c)) {
            continue;
        }
        let program = netloom_filter::Program::new(insns).unwrap();
        for frame in frames.iter().step_by(1 + round % 7) {
            let wire = u32::try_from(frame.len()).unwrap();
            let verdict = program.run(frame, wire);
            assert_eq!(verdict, offline_filter(&program, frame, wire).unwrap(), "{program:?}");
            kept += usize::from(verdict != 0);
        }
    }
    assert!(kept > 1000, "only {kept} frames kept");
}

#[test]
fn long_lists_are_compiled() {
    needs!("libpcap");
    let hosts: Vec<String> =
        (0..300).map(|n| format!("host 10.1.{}.{}", n / 250, n % 250)).collect();
    let ports: Vec<String> = (0..200).map(|n| format!("port {}", 1000 + 7 * n)).collect();
    for list in [hosts, ports] {
        let program = compile(&list.join(" or "), 96).unwrap();
        assert!(program.insns().len() > 200);
        for frame in corpus() {
            let wire = u32::try_from(frame.len()).unwrap();
            assert_eq!(program.run(&frame, wire), offline_filter(&program, &frame, wire).unwrap());
        }
    }
}

#[test]
fn what_is_refused_says_why() {
    needs!("libpcap");
    let refused = |expression: &str| compile(expression, 96).unwrap_err();
    assert!(
        matches!(refused("tcp prot 80"), Error::Expression { message, .. } if !message.is_empty())
    );
    // libpcap compiles it to ancillary data.
    assert!(matches!(refused("inbound"), Error::Filter { .. } | Error::Expression { .. }));
    assert!(matches!(refused("tcp\0"), Error::Expression { .. }));
    let error = refused("ip protochain 6");
    assert!(matches!(error, Error::Filter { .. }), "{error}");
}

#[test]
fn the_empty_expression_keeps_as_much_as_asked_for() {
    needs!("libpcap");
    assert_eq!(compile("", 96).unwrap().run(&[], 0), 96);
    assert_eq!(compile("", 0).unwrap().run(&[], 0), 1);
}

#[test]
fn threads_compile_at_the_same_time() {
    needs!("libpcap");
    std::thread::scope(|scope| {
        for port in 1..5 {
            scope.spawn(move || {
                for _ in 0..100 {
                    compile(&format!("tcp port {port}"), 96).unwrap();
                }
            });
        }
    });
}

#[test]
fn without_names_of_protocols_a_filter_by_name_is_refused() {
    needs!("libpcap");
    isolated!({
        // Loaded before the loader's cache is hidden, too.
        version().unwrap();
        let hidden =
            std::process::Command::new("mount").args(["-t", "tmpfs", "etc", "/etc"]).status();
        assert!(hidden.unwrap().success());
        for named in ["ip proto \\tcp", "ip6 proto \\udp", "proto no-such"] {
            let refused = compile(named, 65_535).unwrap_err().to_string();
            assert!(refused.contains("install netbase"), "{named}: {refused}");
        }
        for other in ["ip proto 6", "tcp port 80", "ether proto \\ip"] {
            compile(other, 65_535).unwrap();
        }
    });
}

/// Many of these, in at most 4,096 bytes.
fn in_a_row(first: &str, between: &str, one: impl Fn(u32) -> String) -> String {
    let mut all = first.to_owned() + &one(1);
    for number in 2.. {
        let next = format!("{between}{}", one(number));
        if all.len() + next.len() > 4096 {
            break;
        }
        all.push_str(&next);
    }
    all
}

#[test]
fn an_expression_of_others_takes_bounded_work() {
    needs!("libpcap");
    isolated!({
        // libpcap takes minutes for the first.
        for expression in [
            in_a_row("port ", "||", |n| n.to_string()),
            in_a_row("host ", "||", |n| n.to_string()),
            in_a_row("portrange ", "||", |n| format!("{n}-{}", n + 9)),
            in_a_row("portrange ", "||", |n| format!("{n}-{}", n + 9))[..1000].to_owned() + "9",
            in_a_row("", "&&", |n| format!("(port {n}||{})", n + 1)),
            in_a_row("", " or ", |n| format!("tcp port {n}")),
            in_a_row("", "+", |_| "ip[0]".to_owned()) + "=1",
            "(".repeat(2000) + "ip" + &")".repeat(2000),
            "ip[".repeat(800) + "0" + &"]".repeat(800) + "=1",
        ] {
            let before = netloom_kit::worked(std::process::id());
            let made = compile_bounded(&expression);
            let took = netloom_kit::worked(std::process::id()) - before;
            let begin = &expression[..40];
            assert!(took < std::time::Duration::from_secs(3), "{begin}: {took:?}");
            if let Err(e) = made {
                let words = e.to_string();
                let told = [format!("at most {MOST_WORDS}"), format!("at most {MOST_BOUNDED}")];
                assert!(told.iter().any(|told| words.contains(told)), "{begin}: {words}");
            }
        }
    });
}

#[test]
fn what_is_not_too_long_is_the_same_program() {
    needs!("libpcap", "protocols");
    let mut expressions: Vec<String> =
        recorded::programs().into_iter().map(|(expression, _)| expression).collect();
    // As a flow of nodes that have ten addresses each.
    let hosts = |side: &str| {
        let all: Vec<String> = (1..=10).map(|n| format!("{side} host fd00::{n}")).collect();
        format!("({})", all.join(" or "))
    };
    expressions.push(format!("({} and {} and dst port 80)", hosts("src"), hosts("dst")));
    for expression in expressions {
        let [one, other] = [compile(&expression, 1), compile_bounded(&expression)]
            .map(|program| program.unwrap_or_else(|e| panic!("{expression}: {e}")));
        assert_eq!(one.insns(), other.insns(), "{expression}");
    }
}

#[test]
fn names_of_others_are_asked_of_nobody() {
    needs!("libpcap", "protocols");
    isolated!({
        version().unwrap();
        compile_bounded("tcp port http").unwrap();
        let hidden =
            std::process::Command::new("mount").args(["-t", "tmpfs", "etc", "/etc"]).status();
        assert!(hidden.unwrap().success());
        std::fs::write("/etc/nsswitch.conf", "hosts: files dns\nnetworks: files dns\n").unwrap();
        std::fs::write("/etc/hosts", "10.9.8.7 known\n").unwrap();
        let resolver = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";
        std::fs::write("/etc/resolv.conf", resolver).unwrap();
        let mut batch = netloom_netlink::Batch::new();
        batch.push("link lo", &netloom_netlink::Change::of(1).up());
        netloom_netlink::Socket::open().unwrap().run(&mut batch).unwrap();
        let server = std::net::UdpSocket::bind("127.0.0.1:53").unwrap();
        server.set_nonblocking(true).unwrap();
        let asked = || server.recv(&mut [0; 512]).is_ok();
        compile_bounded("host known").unwrap();
        for name in ["host secret.example", "src secret.example or dst secret.example"] {
            let refused = compile_bounded(name).unwrap_err().to_string();
            assert!(refused.contains("write an address, or the name of a node"), "{refused}");
        }
        assert!(compile_bounded("net secret.example").is_err());
        assert!(!asked(), "the name server was asked");
        // Where that is meant, it is.
        compile("host secret.example", 1).unwrap_err();
        assert!(asked());
    });
}
