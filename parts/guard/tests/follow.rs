//! A policy that is followed: rules, answers, learning, frozen policies, the log.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use netloom_guard::{Answer, Ask, Log, Options, Question, Rules, start};
use netloom_kit::needs;
use netloom_policy::learn::Learned;
use netloom_policy::{Action, Direction, Policy, Rule, read, write};
use netloom_sys::seccomp::launch::Place;

use super::redteam::{doors, run as run_door};

/// Connects to each port in turn, and prints which let it.
const CONNECT: &str = "
import socket, sys, errno
for port in sys.argv[1:]:
    try:
        socket.create_connection(('127.0.0.1', int(port))).close()
        print('yes')
    except OSError as e:
        print(errno.errorcode[e.errno])
";

fn place() -> Place {
    Place { own_user: netloom_kit::userns_allowed(), ..Place::default() }
}

fn run(rules: &Rules, ports: &[u16]) -> String {
    let mut command = Command::new("python3");
    command.args(["-c", CONNECT]).args(ports.iter().map(u16::to_string)).stdout(Stdio::piped());
    let (child, supervisor) = start(command, place()).unwrap();
    supervisor.serve(rules).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace('\n', " ")
}

fn listeners() -> ([TcpListener; 2], [u16; 2]) {
    let all = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = [0, 1].map(|at: usize| all[at].local_addr().unwrap().port());
    (all, ports)
}

fn policy(text: &str) -> Policy {
    read("policy", text.as_bytes()).unwrap()
}

/// Answers the same each time, and counts.
struct Always(Answer, AtomicUsize);

impl Ask for &'static Always {
    fn ask(&self, _: &Question<'_>) -> Answer {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.clone()
    }
}

fn always(answer: Answer) -> &'static Always {
    Box::leak(Box::new(Always(answer, AtomicUsize::new(0))))
}

fn asking(answer: &'static Always) -> Options {
    Options { ask: Some(Box::new(answer)), ..Options::default() }
}

#[test]
fn rules_allow_and_deny_with_their_error() {
    let (_held, [a, b]) = listeners();
    let text = format!(
        "default: deny\nrules: [{{allow: out, to: 127.0.0.0/8, port: {a}}}, \
         {{deny: out, port: {b}, errno: ECONNREFUSED}}]"
    );
    let rules = Rules::new(policy(&text), Options::default());
    assert_eq!(run(&rules, &[a, b, a]), "yes ECONNREFUSED yes ");
}

#[test]
fn an_answer_for_once_is_asked_again_and_a_rule_is_not() {
    let (_held, [a, b]) = listeners();
    let once = always(Answer::Once(Action::Allow));
    let rules = Rules::new(Policy::default(), asking(once));
    assert_eq!(run(&rules, &[a, a, b]), "yes yes yes ");
    assert_eq!(once.1.load(Ordering::Relaxed), 3);
    let rule = Rule::every(Action::Allow, Direction::Out);
    let rule = always(Answer::Rule(Box::new(rule)));
    let rules = Rules::new(Policy::default(), asking(rule));
    assert_eq!(run(&rules, &[a, a, b]), "yes yes yes ");
    assert_eq!(rule.1.load(Ordering::Relaxed), 1);
    assert_eq!(rules.answers().len(), 1);
}

#[test]
fn without_anybody_to_ask_the_answer_is_no() {
    let (_held, [a, _]) = listeners();
    assert_eq!(run(&Rules::new(Policy::default(), Options::default()), &[a]), "EACCES ");
    let nobody = asking(always(Answer::Nobody));
    assert_eq!(run(&Rules::new(Policy::default(), nobody), &[a]), "EACCES ");
    let lenient = policy("unanswered: allow");
    assert_eq!(run(&Rules::new(lenient, Options::default()), &[a]), "yes ");
}

#[test]
fn what_is_learned_suffices_when_frozen_and_what_is_new_is_counted() {
    let (_held, [a, b]) = listeners();
    let learning = Options { learn: Some(Learned::new(true)), ..Options::default() };
    let rules = Rules::new(Policy::default(), learning);
    assert_eq!(run(&rules, &[a]), "yes ");
    let nothing = policy("default: deny");
    let learned = rules.learned(&nothing).unwrap().policy;
    assert_eq!(learned.rules.len(), 1, "{}", write(&learned));
    let asking = Policy { default: Action::Ask, ..policy(&write(&learned)) };
    let frozen = || Options { frozen: true, ..Options::default() };
    let same = Rules::new(asking.clone(), frozen());
    assert_eq!((run(&same, &[a, a]).as_str(), same.missing()), ("yes yes ", None));
    let more = Rules::new(asking, frozen());
    assert_eq!(run(&more, &[a, b]), "yes EACCES ");
    let missing = more.missing().unwrap().policy.rules;
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].ports.as_ref().unwrap().ranges(), [(u32::from(b), u32::from(b))]);
}

#[test]
fn each_decision_is_a_line_of_the_log() {
    let (_held, [a, b]) = listeners();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let options = Options { log: Some(Log::append(&path).unwrap()), ..Options::default() };
    let rules =
        Rules::new(policy(&format!("default: deny\nrules: [{{allow: out, port: {a}}}]")), options);
    assert_eq!(run(&rules, &[a, b]), "yes EACCES ");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0]["answer"], "allow");
    assert_eq!(lines[0]["rule"], format!("{{allow: out, port: {a}}}"));
    assert_eq!(lines[0]["target"], format!("127.0.0.1:{a}"));
    assert!(lines[0]["program"].as_str().unwrap().contains("python3"), "{text}");
    assert_eq!(lines[0]["arguments"][1], "-c");
    assert_eq!((&lines[1]["answer"], &lines[1]["because"]), (&"deny".into(), &"default".into()));
    assert_eq!(lines[1]["errno"], 13);
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_program_whose_first_thread_has_ended_is_known_by_its_content() {
    needs!("cc");
    let program = doors();
    let digest = netloom_guard::digest::of_file(program).unwrap();
    let rules = |digest: [u8; 32]| {
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!("default: deny\nrules: [{{allow: out, sha256: \"{digits}\"}}]");
        Rules::new(policy(&text), Options::default())
    };
    let tried = run_door(program, "without_leader", Some(&rules(digest)));
    assert_eq!((tried.reached, tried.said.as_str()), (1, ""));
    let tried = run_door(program, "without_leader", Some(&rules([0; 32])));
    assert_eq!((tried.reached, tried.said.trim()), (0, "EACCES"));
}
