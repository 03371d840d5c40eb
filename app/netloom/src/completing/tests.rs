//! Completion of verbs and flags, which needs no lab.

use super::*;

/// The candidates for the last word.
fn words(line: &str) -> Vec<String> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let found = candidates(&words);
    found.iter().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn verbs_and_flags_are_those_of_the_definitions() {
    let all = words("");
    assert!(all.contains(&"up".to_owned()) && all.contains(&"measure".to_owned()), "{all:?}");
    assert!(!all.iter().any(|word| word.ends_with("-process") || word == "complete-words"));
    assert_eq!(words("sw"), ["switch"]);
    assert_eq!(words("node mo"), ["move-control", "move-interface"]);
    assert_eq!(words("switch vlan s1 1 "), ["access", "trunk", "qinq", "none"]);
    assert_eq!(words("down --a"), ["--all"]);
    assert!(words("ping -").contains(&"-4".to_owned()));
    assert!(words("link set l -").contains(&"--delay".to_owned()));
    assert!(words("exec -").contains(&"--lab".to_owned()), "a flag of all verbs");
}

#[test]
fn values_of_flags_and_arguments_are_known() {
    assert_eq!(words("capture --engine t"), ["tpacket", "tc-ring"]);
    assert_eq!(words("capture --engine=t"), ["--engine=tpacket", "--engine=tc-ring"]);
    assert_eq!(words("link set l --end "), ["a", "b"]);
    assert_eq!(words("completions z"), ["zsh"]);
    assert_eq!(words("node create x cp"), ["cpu="]);
    assert_eq!(words("switch create x ki"), ["kind="]);
    assert_eq!(words("up "), [":files"]);
    assert_eq!(words("check a.yaml b"), [":files"]);
    assert_eq!(words("capture -w "), [":files"]);
    assert_eq!(words("capture --write=x"), [":files"]);
    assert_eq!(words("capture -wx"), Vec::<String>::new());
    assert_eq!(words("up -- -x"), [":files"]);
    assert_eq!(words("man "), [":folders"]);
    assert_eq!(words("link set l --delay "), Vec::<String>::new());
}

#[test]
fn a_program_s_words_are_its_own() {
    assert_eq!(words("exec a "), [":commands", ":files"]);
    assert_eq!(words("exec a -- "), [":commands", ":files"]);
    assert_eq!(words("exec a -- ls -"), [":files"]);
    assert_eq!(words("exec a ls --no"), [":files"]);
    assert_eq!(words("-l x exec --no-root a pi"), [":commands", ":files"]);
}

#[test]
fn a_lab_may_be_named_like_a_verb() {
    assert_eq!(words("-l capture capture --engine t"), ["tpacket", "tc-ring"]);
    assert_eq!(words("--lab down node mo"), ["move-control", "move-interface"]);
    assert_eq!(words("switch -l vlan vlan s1 1 "), ["access", "trunk", "qinq", "none"]);
}

#[test]
fn verbs_follow_the_arguments_that_they_need() {
    assert_eq!(words("switch vlan "), Vec::<String>::new());
    assert_eq!(words("switch vlan s1 "), Vec::<String>::new());
    assert_eq!(words("switch vlan s1 1 a"), ["access"]);
}

#[test]
fn lines_without_sense_have_no_words() {
    for line in ["fly ", "-- ", "-l", "up a b c ", "-x=", "--=", "switch port s 1 --", "-- -"] {
        let _ = words(line);
    }
    assert_eq!(candidates(&[]), Vec::<String>::new());
    assert_eq!(words("schema "), Vec::<String>::new());
    assert_eq!(words("node create x --root /a y z"), Vec::<String>::new());
}
