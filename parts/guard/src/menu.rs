//! Keys to answers: the line shown below a question, and the effect of each key. Pure: keys and times in, steps out.
//!
//! Keys typed before the question was seen do not answer it: for a moment after it appears, none counts.

use std::time::Duration;

use netloom_policy::{Action, Direction, Errno, Port, Request, Target};

use crate::card::{Scope, network};

/// Time after a question appears in which keys do not count.
pub const DEAD: Duration = Duration::from_millis(300);

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What happens.
    pub action: Action,
    /// To what else, or `None`: to this call alone.
    pub scope: Option<Scope>,
    /// For how long, in minutes; `None` is for ever.
    pub minutes: Option<u32>,
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// Other lines are to be shown: see [`Menu::lines`].
    Shown,
    /// More about the asking program is to be shown.
    Details,
    /// It answers.
    Answer(Choice),
    /// It denies this call and all others of this program that wait.
    DenyAll,
    /// It denies everything that this program asks, for a while.
    DenyProgram,
}

/// Where the dialogue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    First,
    Minutes { action: Action, typed: u32 },
    Scope { action: Action, minutes: Option<u32> },
}

/// The dialogue of a question.
#[derive(Clone, Debug)]
pub struct Menu {
    stage: Stage,
    scopes: Vec<(char, Scope, String)>,
    many: bool,
    flood: bool,
}

/// Whether a key denies once: also Ctrl-C and Ctrl-D, which are meant for the program.
pub fn denies(key: u8) -> bool {
    matches!(key, b'n' | 3 | 4)
}

/// How long a program is denied everything after a flood of questions.
pub const FLOOD_MINUTES: u32 = 60;

/// Longest time that can be typed, in minutes: a week.
const LONGEST: u32 = 7 * 24 * 60;

impl Menu {
    /// The dialogue for a request; `many` if more questions of the same program wait.
    pub fn new(request: &Request, many: bool) -> Menu {
        Menu { stage: Stage::First, scopes: scopes(request), many, flood: false }
    }

    /// The dialogue for requests that are too many to be told apart: all or nothing.
    pub fn flood() -> Menu {
        Menu { stage: Stage::First, scopes: vec![], many: false, flood: true }
    }

    /// What the keys are.
    pub fn lines(&self) -> Vec<String> {
        match self.stage {
            Stage::First if self.flood => vec![
                "y  allow all these once   n  deny all these once".to_owned(),
                format!("b  deny all that this program asks, for {FLOOD_MINUTES} minutes"),
                "i  more about the program".to_owned(),
            ],
            Stage::First => {
                let mut lines = vec![
                    "y  allow once         n  deny once".to_owned(),
                    "a  allow always...    d  deny always...".to_owned(),
                    "t  allow for a time   T  deny for a time".to_owned(),
                    "i  more about the program".to_owned(),
                ];
                if self.many {
                    lines.push("N  deny all that this program asks now".to_owned());
                }
                lines
            }
            Stage::Minutes { action, typed: 0 } => {
                vec![format!("{action} for how many minutes? (Enter ends, Esc goes back)")]
            }
            Stage::Minutes { action, typed } => {
                vec![format!("{action} for how many minutes? {typed}")]
            }
            Stage::Scope { action, minutes } => {
                let span = minutes.map(|n| format!(" for {n} minutes")).unwrap_or_default();
                let head = format!("{action}{span} what? (Esc goes back)");
                let all = self.scopes.iter().map(|(key, _, words)| format!("{key}  {words}"));
                std::iter::once(head).chain(all).collect()
            }
        }
    }

    /// Takes a key that was pressed `age` after the question appeared.
    pub fn press(&mut self, key: u8, age: Duration) -> Step {
        if age < DEAD {
            return Step::Nothing;
        }
        match self.stage {
            Stage::First => self.first(key),
            Stage::Minutes { action, typed } => self.minutes(key, action, typed),
            Stage::Scope { action, minutes } => self.scope(key, action, minutes),
        }
    }

    fn first(&mut self, key: u8) -> Step {
        let deny = Action::Deny(Errno::default());
        let once = |action| Step::Answer(Choice { action, scope: None, minutes: None });
        match key {
            b'y' => once(Action::Allow),
            key if denies(key) => once(deny),
            b'i' => Step::Details,
            b'b' if self.flood => Step::DenyProgram,
            _ if self.flood => Step::Nothing,
            b'a' => self.go(Stage::Scope { action: Action::Allow, minutes: None }),
            b'd' => self.go(Stage::Scope { action: deny, minutes: None }),
            b't' => self.go(Stage::Minutes { action: Action::Allow, typed: 0 }),
            b'T' => self.go(Stage::Minutes { action: deny, typed: 0 }),
            b'N' if self.many => Step::DenyAll,
            _ => Step::Nothing,
        }
    }

    fn minutes(&mut self, key: u8, action: Action, typed: u32) -> Step {
        match key {
            b'0'..=b'9' => {
                // Bounded at each digit, so that it cannot overflow.
                let typed = (typed * 10 + u32::from(key - b'0')).min(LONGEST);
                self.go(Stage::Minutes { action, typed })
            }
            // Backspace sends BS or DEL, by the terminal.
            8 | 127 => self.go(Stage::Minutes { action, typed: typed / 10 }),
            b'\r' | b'\n' if typed > 0 => self.go(Stage::Scope { action, minutes: Some(typed) }),
            // Esc and Ctrl-C.
            27 | 3 => self.go(Stage::First),
            _ => Step::Nothing,
        }
    }

    fn scope(&mut self, key: u8, action: Action, minutes: Option<u32>) -> Step {
        if key == 27 || key == 3 {
            return self.go(Stage::First);
        }
        let found = self.scopes.iter().find(|(known, ..)| *known == char::from(key));
        found.map_or(Step::Nothing, |(_, scope, _)| {
            Step::Answer(Choice { action, scope: Some(*scope), minutes })
        })
    }

    fn go(&mut self, stage: Stage) -> Step {
        self.stage = stage;
        Step::Shown
    }
}

/// Scopes that differ for a request.
fn scopes(request: &Request) -> Vec<(char, Scope, String)> {
    let program = (
        'p',
        Scope::Program,
        match request.direction {
            Direction::Out => "this program to anywhere",
            Direction::In => "this program on any port",
            Direction::Open => "this program, any such socket",
        }
        .to_owned(),
    );
    let destination = ('d', Scope::Destination, "this program and this destination".to_owned());
    match &request.target {
        Target::Ip { port, .. } => {
            let mut all = vec![destination];
            let any_port = if *port == Port::None { "" } else { ", any port" };
            match port {
                Port::Named(0) | Port::None => {}
                Port::Named(port) => {
                    all.push(('o', Scope::Port, format!("this program and port {port}, anywhere")));
                }
                Port::Free(_) => {
                    all.push(('o', Scope::Port, "this program and any free port".to_owned()));
                }
            }
            if let Some(network) = network(&request.target) {
                all.push(('w', Scope::Network, format!("this program and {network}{any_port}")));
            }
            all.push(program);
            all
        }
        Target::Socket | Target::Hidden => vec![program],
        Target::Name(_) | Target::Path(_) | Target::Abstract(_) | Target::Vsock { .. } => {
            vec![destination, program]
        }
    }
}

#[cfg(test)]
mod tests {
    use netloom_policy::{Program, Protocol};

    use super::*;

    const LATER: Duration = Duration::from_secs(1);

    fn menu(many: bool) -> Menu {
        let request = Request {
            program: Program { path: "/bin/x".into(), sha256: None },
            direction: Direction::Out,
            protocol: Protocol::Tcp,
            target: Target::ip(Direction::Out, "192.0.2.1".parse().unwrap(), 80, vec![]),
        };
        Menu::new(&request, many)
    }

    /// The last step of these keys.
    fn press(menu: &mut Menu, keys: &str) -> Step {
        keys.bytes().map(|key| menu.press(key, LATER)).last().unwrap()
    }

    fn answer(keys: &str) -> (String, Option<Scope>, Option<u32>) {
        match press(&mut menu(false), keys) {
            Step::Answer(Choice { action, scope, minutes }) => (action.to_string(), scope, minutes),
            step => panic!("{keys:?}: {step:?}"),
        }
    }

    #[test]
    fn keys_answer() {
        assert_eq!(answer("y"), ("allow".into(), None, None));
        assert_eq!(answer("n"), ("deny".into(), None, None));
        assert_eq!(answer("\u{3}"), ("deny".into(), None, None));
        assert_eq!(answer("ad"), ("allow".into(), Some(Scope::Destination), None));
        assert_eq!(answer("dw"), ("deny".into(), Some(Scope::Network), None));
        assert_eq!(answer("t10\ro"), ("allow".into(), Some(Scope::Port), Some(10)));
        assert_eq!(answer("t19\u{7f}5\rp"), ("allow".into(), Some(Scope::Program), Some(15)));
        assert_eq!(answer("a\u{1b}dp"), ("deny".into(), Some(Scope::Program), None));
        assert_eq!(answer("T5\rd"), ("deny".into(), Some(Scope::Destination), Some(5)));
        assert_eq!(answer("t99999999999\rd").2, Some(LONGEST));
    }

    #[test]
    fn keys_that_were_typed_before_the_question_do_not_answer_it() {
        let mut menu = menu(false);
        assert_eq!(menu.press(b'y', Duration::ZERO), Step::Nothing);
        assert_eq!(menu.press(b'y', DEAD - Duration::from_millis(1)), Step::Nothing);
        assert!(matches!(menu.press(b'y', DEAD), Step::Answer(_)));
    }

    #[test]
    fn other_keys_do_nothing() {
        for key in 0..=255_u8 {
            let mut menu = menu(false);
            let known = b"ynadtTi\x03\x04".contains(&key);
            assert_eq!(menu.press(key, LATER) == Step::Nothing, !known, "{key}");
        }
        assert_eq!(press(&mut menu(false), "t\r"), Step::Nothing);
        assert_eq!(press(&mut menu(false), "ay"), Step::Nothing);
    }

    #[test]
    fn all_can_be_denied_where_many_wait() {
        assert_eq!(press(&mut menu(true), "N"), Step::DenyAll);
        assert!(menu(true).lines().join("\n").contains("deny all"));
        assert!(!menu(false).lines().join("\n").contains("deny all"));
    }

    #[test]
    fn a_flood_is_answered_as_a_whole() {
        for key in 0..=255_u8 {
            let step = Menu::flood().press(key, LATER);
            match key {
                b'y' | b'n' | 3 | 4 => assert!(matches!(step, Step::Answer(_)), "{key}"),
                b'b' => assert_eq!(step, Step::DenyProgram),
                b'i' => assert_eq!(step, Step::Details),
                _ => assert_eq!(step, Step::Nothing, "{key}"),
            }
        }
    }

    #[test]
    fn each_key_that_is_shown_for_a_scope_answers() {
        let mut shown = menu(false);
        press(&mut shown, "a");
        for line in &shown.lines()[1..] {
            let mut menu = shown.clone();
            assert!(matches!(menu.press(line.as_bytes()[0], LATER), Step::Answer(_)), "{line}");
        }
    }
}
